"""The data source `omnigraph` of Spark, without Spark: options, reading, writing, the commit.

`omnigraph.spark` has the classes that Spark calls; they only translate types and call functions from
here. Nothing in this package imports PySpark, so most of its tests need no Java.
"""
