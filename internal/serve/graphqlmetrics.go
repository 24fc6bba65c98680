package serve

import (
	"github.com/leveehq/levee/internal/graphql"
	"github.com/leveehq/levee/internal/metrics"
)

func graphqlMetrics(s graphql.Status) metrics.GraphQL {
	in, c := s.Instances, s.Connections
	out := metrics.GraphQL{
		Sheds: s.Sheds,
		Instances: metrics.GraphQLInstances{
			BudgetBytes: in.Budget, Bytes: in.Charged, Capacity: in.Capacity,
			Resident: in.Resident, Leased: in.Leased, Draining: in.Draining, Closing: in.Closing, Building: in.Building, Waiting: in.Waiting,
			Hits: in.Hits, Waits: in.Waits, Begun: in.Begun, Built: in.Built, Failed: in.Failed,
			BuildSeconds: in.BuildSeconds, WaitSeconds: in.WaitSeconds, Evicted: in.Evicted, Shed: in.Shed,
		},
		Connections: metrics.GraphQLConnections{
			Budget: c.Budget, Open: c.Open, Idle: c.Idle, Waiting: c.Waiting,
			Opened: c.Opened, Closed: c.Closed, Failures: c.Failures, FastFail: c.FastFail,
			Requests: c.Requests, Repeated: c.Repeated, Canceled: c.Canceled,
		},
	}
	for _, a := range s.Answers {
		out.Answers = append(out.Answers, metrics.GraphQLAnswer(a))
	}
	for _, t := range s.Busiest {
		out.Busiest = append(out.Busiest, metrics.GraphQLTenant(t))
	}
	return out
}
