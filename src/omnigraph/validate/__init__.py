"""The one validator: row rules on Arrow batches, set rules as SQL, one evaluator for every writer."""
