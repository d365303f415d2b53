"""A blizzard at New York's airports in 2013, through the pipeline on Spark.

``source`` reads the flights and the weather that there were. ``people`` and ``stations`` make up
who watches them: travellers with their hosts, and crews on the ramps. ``world`` puts it all into
one sequence of events. ``pipeline`` streams that through Spark, ``replay`` plays it again in one
embedded filter, compares, and asks why, and ``picture`` draws what happened.
"""
