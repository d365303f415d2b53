"""Content graphs: components, closure, cleaning; who covers whom.

Nodes are numbers. A graph's edges, parent -> child, are in compressed rows: the children of node n
are ``down[down_at[n] : down_at[n + 1]]``. A cycle is one component, known by its lowest node;
everything after ``components`` deals with those representatives only. The closure's row of n is
``above[above_at[n] : above_at[n] + above_n[n]]``: n and all that cover it, ascending.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel

UNSEEN = -1


@kernel
def compress(keys: Any, n_nodes: Any, at: Any) -> None:
    """Where the entries of each key begin, in a list that is sorted by key."""
    at[:] = 0
    for i in range(keys.shape[0]):
        at[keys[i] + 1] += 1
    for n in range(n_nodes):
        at[n + 1] += at[n]


@kernel
def invert(at: Any, out: Any, back_at: Any, back: Any) -> None:
    """Compressed rows of a relation -> those of its inverse, each ascending."""
    n_nodes = at.shape[0] - 1
    back_at[:] = 0
    for i in range(out.shape[0]):
        back_at[out[i] + 1] += 1
    for n in range(n_nodes):
        back_at[n + 1] += back_at[n]
    cursor = back_at[:-1].copy()
    for n in range(n_nodes):
        for i in range(at[n], at[n + 1]):
            back[cursor[out[i]]] = n
            cursor[out[i]] += 1


@kernel
def components(down_at: Any, down: Any, component: Any, order: Any) -> Any:
    """Tarjan's components: each node's lowest fellow, and those, parents first; how many.

    Without recursion: the path from the root is a list, with where each node has got to.
    """
    n_nodes = component.shape[0]
    index = np.full(n_nodes, UNSEEN, np.int32)
    low = np.empty(n_nodes, np.int32)
    open_ = np.zeros(n_nodes, np.bool_)
    stack = np.empty(n_nodes, np.int32)
    path = np.empty(n_nodes, np.int32)
    cursor = np.empty(n_nodes, np.int64)
    n_seen = n_stack = n_done = 0
    for root in range(n_nodes):
        if index[root] != UNSEEN:
            continue
        n_path = 1
        path[0] = root
        cursor[root] = down_at[root]
        index[root] = low[root] = n_seen
        n_seen += 1
        stack[n_stack] = root
        n_stack += 1
        open_[root] = True
        while n_path:
            node = path[n_path - 1]
            if cursor[node] < down_at[node + 1]:
                child = down[cursor[node]]
                cursor[node] += 1
                if index[child] == UNSEEN:
                    index[child] = low[child] = n_seen
                    n_seen += 1
                    stack[n_stack] = child
                    n_stack += 1
                    open_[child] = True
                    cursor[child] = down_at[child]
                    path[n_path] = child
                    n_path += 1
                elif open_[child]:
                    low[node] = min(low[node], index[child])
                continue
            n_path -= 1
            if n_path:
                low[path[n_path - 1]] = min(low[path[n_path - 1]], low[node])
            if low[node] == index[node]:
                begin = n_stack
                lowest = node
                while True:
                    begin -= 1
                    lowest = min(lowest, stack[begin])
                    if stack[begin] == node:
                        break
                for i in range(begin, n_stack):
                    component[stack[i]] = lowest
                    open_[stack[i]] = False
                n_stack = begin
                order[n_done] = lowest
                n_done += 1
    order[:n_done] = order[:n_done][::-1].copy()
    return n_done


@kernel
def depths(down_at: Any, down: Any, up_at: Any, depth: Any) -> None:
    """Links from the nearest root; of nodes below no root, the first stands for one, and so on."""
    n_nodes = depth.shape[0]
    queue = np.empty(n_nodes, np.int32)
    roots = np.empty(n_nodes, np.int32)
    n_roots = 0
    for node in range(n_nodes):
        if up_at[node] == up_at[node + 1]:
            roots[n_roots] = node
            n_roots += 1
    first = 0
    while True:
        depth[:] = UNSEEN
        n = done = 0
        for i in range(n_roots):
            depth[roots[i]] = 0
            queue[n] = roots[i]
            n += 1
        while done < n:
            node = queue[done]
            done += 1
            for i in range(down_at[node], down_at[node + 1]):
                if depth[down[i]] == UNSEEN:
                    depth[down[i]] = depth[node] + 1
                    queue[n] = down[i]
                    n += 1
        if n == n_nodes:
            return
        # One walk finds all further roots: what the first node that is left does not reach is left.
        while first < n_nodes:
            if depth[first] == UNSEEN:
                roots[n_roots] = first
                n_roots += 1
                depth[first] = 0
                queue[0] = first
                n, done = 1, 0
                while done < n:
                    node = queue[done]
                    done += 1
                    for i in range(down_at[node], down_at[node + 1]):
                        if depth[down[i]] == UNSEEN:
                            depth[down[i]] = 0
                            queue[n] = down[i]
                            n += 1
            first += 1


@kernel
def clean(down_at: Any, down: Any, depth: Any, kept: Any) -> None:
    """Which links stay: not those to something shallower, nor those back to an ancestor.

    Any cycle that is left without the first kind lies in one depth; a depth-first walk over such
    links meets each cycle's last link when its target is on the path.
    """
    n_nodes = depth.shape[0]
    state = np.zeros(n_nodes, np.int8)  # 1: on the path, 2: done
    path = np.empty(n_nodes, np.int32)
    cursor = np.empty(n_nodes, np.int64)
    for root in range(n_nodes):
        if state[root]:
            continue
        path[0] = root
        n_path = 1
        state[root] = 1
        cursor[root] = down_at[root]
        while n_path:
            node = path[n_path - 1]
            if cursor[node] == down_at[node + 1]:
                state[node] = 2
                n_path -= 1
                continue
            i = cursor[node]
            cursor[node] += 1
            child = down[i]
            kept[i] = depth[child] > depth[node] or (
                depth[child] == depth[node] and state[child] != 1
            )
            if kept[i] and depth[child] == depth[node] and not state[child]:
                state[child] = 1
                cursor[child] = down_at[child]
                path[n_path] = child
                n_path += 1


@kernel
def close(
    order: Any,
    begin: Any,
    up_at: Any,
    up: Any,
    above_at: Any,
    above_n: Any,
    above: Any,
    used: Any,
    spare: Any,
) -> Any:
    """Rows of the closure for the nodes of ``order`` from ``begin`` on, parents first.

    Stops where ``above`` may be too short; (how far it came, entries used). ``spare`` is two lists
    of as many entries as there are nodes.
    """
    for i in range(begin, order.shape[0]):
        node = order[i]
        wanted = np.int64(1)
        for k in range(up_at[node], up_at[node + 1]):
            wanted += above_n[up[k]]
        if used + wanted > above.shape[0]:
            return i, used
        turn = 0
        n = 0
        for k in range(up_at[node], up_at[node + 1]):
            row = above_at[up[k]]
            m = merge_rows(spare[turn], n, above, row, above_n[up[k]], spare[1 - turn])
            turn = 1 - turn
            n = m
        place = n
        while place and spare[turn, place - 1] > node:
            place -= 1
        for k in range(place):
            above[used + k] = spare[turn, k]
        above[used + place] = node
        for k in range(place, n):
            above[used + k + 1] = spare[turn, k]
        above_at[node] = used
        above_n[node] = n + 1
        used += n + 1
    return order.shape[0], used


@inlined
def merge_rows(a: Any, n_a: Any, b: Any, begin_b: Any, n_b: Any, out: Any) -> Any:
    """The union of two ascending lists; its length."""
    i = j = n = 0
    while i < n_a and j < n_b:
        x, y = a[i], b[begin_b + j]
        out[n] = min(x, y)
        n += 1
        i += x <= y
        j += y <= x
    while i < n_a:
        out[n] = a[i]
        n += 1
        i += 1
    while j < n_b:
        out[n] = b[begin_b + j]
        n += 1
        j += 1
    return n


@kernel
def below_of(starts: Any, down_at: Any, down: Any, seen: Any, out: Any) -> Any:
    """All that some nodes cover, parents before children within each; ``seen`` is left clear.

    Returns how many. Depth-first, written from the end: a node comes before what it covers.
    """
    n_nodes = seen.shape[0]
    path = np.empty(n_nodes, np.int32)
    cursor = np.empty(n_nodes, np.int64)
    n = n_nodes
    for s in range(starts.shape[0]):
        if seen[starts[s]]:
            continue
        seen[starts[s]] = True
        path[0] = starts[s]
        cursor[starts[s]] = down_at[starts[s]]
        n_path = 1
        while n_path:
            node = path[n_path - 1]
            if cursor[node] < down_at[node + 1]:
                child = down[cursor[node]]
                cursor[node] += 1
                if not seen[child]:
                    seen[child] = True
                    cursor[child] = down_at[child]
                    path[n_path] = child
                    n_path += 1
                continue
            n_path -= 1
            n -= 1
            out[n] = node
    count = n_nodes - n
    for i in range(count):
        out[i] = out[n + i]
        seen[out[i]] = False
    return count


@kernel
def count_below(
    above_at: Any, above_n: Any, above: Any, nodes: Any, change: Any, below: Any
) -> None:
    """Add to each ancestor's number of covered nodes what some nodes' rows say."""
    for i in range(nodes.shape[0]):
        node = nodes[i]
        for k in range(above_at[node], above_at[node] + above_n[node]):
            below[above[k]] += change


@kernel
def tour(order: Any, up_at: Any, down_at: Any, down: Any, enter: Any, leave: Any) -> None:
    """Euler's tour of a forest: what a node covers has ``enter`` within [enter, leave) of it."""
    n = 0
    path = np.empty(enter.shape[0], np.int32)
    cursor = np.empty(enter.shape[0], np.int64)
    for i in range(order.shape[0]):
        root = order[i]
        if up_at[root] != up_at[root + 1]:
            continue
        path[0] = root
        cursor[root] = down_at[root]
        enter[root] = n
        n += 1
        n_path = 1
        while n_path:
            node = path[n_path - 1]
            if cursor[node] < down_at[node + 1]:
                child = down[cursor[node]]
                cursor[node] += 1
                enter[child] = n
                n += 1
                cursor[child] = down_at[child]
                path[n_path] = child
                n_path += 1
                continue
            leave[node] = n
            n_path -= 1


@inlined
def covers(a: Any, b: Any, above_at: Any, above_n: Any, above: Any) -> Any:
    """Whether representative a is b or above it."""
    low = above_at[b]
    high = low + above_n[b]
    while low < high:
        middle = (low + high) >> 1
        if above[middle] < a:
            low = middle + 1
        else:
            high = middle
    return low < above_at[b] + above_n[b] and above[low] == a


@kernel
def covers_many(a: Any, b: Any, above_at: Any, above_n: Any, above: Any, out: Any) -> None:
    """``covers`` of pairs."""
    for i in range(a.shape[0]):
        out[i] = covers(a[i], b[i], above_at, above_n, above)
