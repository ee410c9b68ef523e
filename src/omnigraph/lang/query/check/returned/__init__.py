"""What a query gives: columns, aggregates and their keys, `having`, order and limits."""
