"""Who may do what: the actions, the question a policy is asked, and the gate that asks it."""
