"""The job of docs/cluster.md on a cluster of two executors, to which germane is shipped."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark")
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]
ROOT = Path(__file__).resolve().parents[1]


def test_the_job_of_the_guide(tmp_path):
    from germane.spark.java import ensure_java

    ensure_java()
    shipped = shutil.make_archive(str(tmp_path / "germane"), "gztar", ROOT / "src", "germane")
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT / "src"), "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }  # fmt: skip
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [
            str(submit), "--master", "local-cluster[2,1,1024]", "--archives", f"{shipped}#shipped",
            "--conf", "spark.executorEnv.PYTHONPATH=shipped",
            "--conf", "spark.ui.enabled=false",
            "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse",
            str(ROOT / "docs" / "examples" / "cluster_job.py"), str(tmp_path / "out"),
        ],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    batch, stream = re.search(r"batch: (\d+) .*stream: (\d+) ", done.stdout, re.DOTALL).groups()
    assert batch == stream == str(expected())
    files = done.stdout.split("germane from:")[1]
    assert "shipped/germane/__init__.py" in files
    assert str(ROOT / "src") not in files


def expected():
    """By hand: prices 90 to 109, a hundred messages, five profiles a context at 90, 92, … 108."""
    prices = [90.0 + i % 20 for i in range(1, 101)]
    return sum(5 for p in prices for i in range(10) if abs(p - (90.0 + 2 * i)) <= 1)
