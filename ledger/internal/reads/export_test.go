package reads

// GaugesQueries are for looking at their plans.
var GaugesQueries = map[string]string{"jobs": gaugesOfJobs, "ages": gaugesOfAges, "leases": gaugesOfLeases, "sweep": gaugesOfSweep}
