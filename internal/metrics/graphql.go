package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// GraphQL counts what the API over PostgreSQL has done. Names of tenants come for the busiest ones alone: the service bounds them.
type GraphQL struct {
	Answers     []GraphQLAnswer
	Sheds       map[string]uint64 // by the code that the client was told
	Instances   GraphQLInstances
	Connections GraphQLConnections
	Busiest     []GraphQLTenant
}

// GraphQLAnswer counts requests that were answered alike. All labels come from closed sets.
type GraphQLAnswer struct {
	Outcome string
	Code    int
	Count   uint64
	Seconds float64
}

// GraphQLInstances is the state of the cache of tenants' instances.
type GraphQLInstances struct {
	BudgetBytes, Bytes                                               int64
	Capacity, Resident, Leased, Draining, Closing, Building, Waiting int
	Hits, Waits, Begun, Built, Failed                                uint64
	BuildSeconds, WaitSeconds                                        float64
	Evicted                                                          map[string]uint64 // by cause
	Shed                                                             map[string]uint64 // by reason
}

// GraphQLConnections is the state of the connections to PostgreSQL.
type GraphQLConnections struct {
	Budget, Open, Idle, Waiting                              int
	Opened, Failures, FastFail, Requests, Repeated, Canceled uint64
	Closed                                                   map[string]uint64 // by cause
}

// GraphQLTenant is one of the busiest.
type GraphQLTenant struct {
	Tenant string
	Served uint64
}

type graphqlCollector struct{ graphql func() GraphQL }

var (
	graphqlResponses = counter("levee_graphql_responses_total", "Answers, by what became of the request and HTTP status (499: the client left).", "outcome", "status")
	graphqlSeconds   = counter("levee_graphql_response_seconds_total", "Time that answers took, waits included; over levee_graphql_responses_total it is their mean.", "outcome", "status")
	graphqlSheds     = counter("levee_graphql_sheds_total", "Requests turned away for now, by the code that the client was told.", "code")

	graphqlInstances     = gauge("levee_graphql_instances", "Tenants' instances that are ready.")
	graphqlLeased        = gauge("levee_graphql_instances_leased", "Those of them that requests use now.")
	graphqlCapacity      = gauge("levee_graphql_instances_capacity", "Instances that there is room for, by what they took so far.")
	graphqlBytes         = gauge("levee_graphql_instance_bytes", "Bytes charged for instances: ready, draining and closing ones.")
	graphqlBudget        = gauge("levee_graphql_instance_budget_bytes", "Bytes that instances and one build may take.")
	graphqlDraining      = gauge("levee_graphql_draining", "Instances that were evicted and are still in use.")
	graphqlClosing       = gauge("levee_graphql_closing", "Instances that are being closed.")
	graphqlBuilding      = gauge("levee_graphql_building", "Builds under way.")
	graphqlWaiting       = gauge("levee_graphql_waiting", "Requests that wait for an instance.")
	graphqlHits          = counter("levee_graphql_hits_total", "Requests whose tenant's instance was ready.")
	graphqlWaits         = counter("levee_graphql_waits_total", "Requests that waited for their tenant's instance.")
	graphqlWaitSeconds   = counter("levee_graphql_wait_seconds_total", "Time that they waited.")
	graphqlBuilds        = counter("levee_graphql_builds_total", "Builds begun.")
	graphqlBuilt         = counter("levee_graphql_builds_done_total", "Builds that made an instance.")
	graphqlBuildsFailed  = counter("levee_graphql_builds_failed_total", "Builds that failed; the log has why.")
	graphqlBuildSeconds  = counter("levee_graphql_build_seconds_total", "Time that builds took.")
	graphqlEvictions     = counter("levee_graphql_evictions_total", "Instances that left, by cause.", "cause")
	graphqlInstanceSheds = counter("levee_graphql_instance_sheds_total", "Requests that got no instance, by reason.", "reason")

	graphqlConnections = gauge("levee_graphql_connections", "Connections to PostgreSQL, by state.", "state")
	graphqlConnBudget  = gauge("levee_graphql_connections_budget", "Connections to PostgreSQL that there may be.")
	graphqlConnWaiting = gauge("levee_graphql_connections_waiting", "Requests that wait for a connection.")
	graphqlConnOpened  = counter("levee_graphql_connections_opened_total", "Connections made.")
	graphqlConnClosed  = counter("levee_graphql_connections_closed_total", "Connections closed, by cause.", "cause")
	graphqlConnFailed  = counter("levee_graphql_connection_failures_total", "Connections that could not be made.")
	graphqlFastFail    = counter("levee_graphql_connection_fast_failures_total", "Requests turned away because a connection could not be made a moment ago.")
	graphqlTrips       = counter("levee_graphql_transactions_total", "Transactions sent to PostgreSQL.")
	graphqlRepeated    = counter("levee_graphql_transactions_repeated_total", "Those sent again, on another connection or with a statement prepared anew.")
	graphqlCanceled    = counter("levee_graphql_cancels_total", "Statements that PostgreSQL was asked to stop.")

	graphqlByTenant  = counter("levee_graphql_tenant_requests_total", "Requests answered, of the busiest tenants; one that was not always among them may count a little high.", "tenant")
	graphqlCollected = []metric{
		graphqlResponses, graphqlSeconds, graphqlSheds, graphqlInstances, graphqlLeased, graphqlCapacity, graphqlBytes, graphqlBudget,
		graphqlDraining, graphqlClosing, graphqlBuilding, graphqlWaiting, graphqlHits, graphqlWaits, graphqlWaitSeconds,
		graphqlBuilds, graphqlBuilt, graphqlBuildsFailed, graphqlBuildSeconds, graphqlEvictions, graphqlInstanceSheds,
		graphqlConnections, graphqlConnBudget, graphqlConnWaiting, graphqlConnOpened, graphqlConnClosed, graphqlConnFailed, graphqlFastFail,
		graphqlTrips, graphqlRepeated, graphqlCanceled, graphqlByTenant,
	}
)

func (c graphqlCollector) Describe(ch chan<- *prometheus.Desc) { describe(ch, graphqlCollected...) }

func (c graphqlCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.graphql()
	for _, a := range s.Answers {
		graphqlResponses.send(ch, float64(a.Count), a.Outcome, strconv.Itoa(a.Code))
		graphqlSeconds.send(ch, a.Seconds, a.Outcome, strconv.Itoa(a.Code))
	}
	sendEach(ch, graphqlSheds, s.Sheds)
	collectInstances(ch, s.Instances)
	collectConnections(ch, s.Connections)
	for _, t := range s.Busiest {
		graphqlByTenant.send(ch, float64(t.Served), t.Tenant)
	}
}

func collectInstances(ch chan<- prometheus.Metric, in GraphQLInstances) {
	sendEach(ch, graphqlEvictions, in.Evicted)
	sendEach(ch, graphqlInstanceSheds, in.Shed)
	for _, m := range []struct {
		metric metric
		n      float64
	}{
		{graphqlInstances, float64(in.Resident)}, {graphqlLeased, float64(in.Leased)}, {graphqlCapacity, float64(in.Capacity)},
		{graphqlBytes, float64(in.Bytes)}, {graphqlBudget, float64(in.BudgetBytes)},
		{graphqlDraining, float64(in.Draining)}, {graphqlClosing, float64(in.Closing)},
		{graphqlBuilding, float64(in.Building)}, {graphqlWaiting, float64(in.Waiting)},
		{graphqlHits, float64(in.Hits)}, {graphqlWaits, float64(in.Waits)}, {graphqlWaitSeconds, in.WaitSeconds},
		{graphqlBuilds, float64(in.Begun)}, {graphqlBuilt, float64(in.Built)}, {graphqlBuildsFailed, float64(in.Failed)},
		{graphqlBuildSeconds, in.BuildSeconds},
	} {
		m.metric.send(ch, m.n)
	}
}

func collectConnections(ch chan<- prometheus.Metric, c GraphQLConnections) {
	graphqlConnections.send(ch, float64(c.Idle), "idle")
	graphqlConnections.send(ch, float64(max(0, c.Open-c.Idle)), "busy")
	sendEach(ch, graphqlConnClosed, c.Closed)
	for _, m := range []struct {
		metric metric
		n      float64
	}{
		{graphqlConnBudget, float64(c.Budget)}, {graphqlConnWaiting, float64(c.Waiting)}, {graphqlConnOpened, float64(c.Opened)},
		{graphqlConnFailed, float64(c.Failures)}, {graphqlFastFail, float64(c.FastFail)}, {graphqlTrips, float64(c.Requests)},
		{graphqlRepeated, float64(c.Repeated)}, {graphqlCanceled, float64(c.Canceled)},
	} {
		m.metric.send(ch, m.n)
	}
}

func sendEach(ch chan<- prometheus.Metric, m metric, counts map[string]uint64) {
	for label, n := range counts {
		m.send(ch, float64(n), label)
	}
}
