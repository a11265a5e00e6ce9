package outage

func child(string) int { return 2 }

const asChild = "MAKEGOOD_TEST_CHILD"
