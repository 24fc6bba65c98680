package graphql

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/residency"
)

// Status is a snapshot, for the admin listener and for metrics.
type Status struct {
	Tenants     []TenantStatus    `json:"tenants"` // those with an instance, the busiest first, at most 100
	Instances   InstanceStatus    `json:"instances"`
	Connections pgpool.Stats      `json:"connections"`
	Answers     []Answer          `json:"answers"`
	Sheds       map[string]uint64 `json:"sheds"` // by code
	Busiest     []TenantCount     `json:"busiest"`

	// Logins are those that row level security does not bind, at most 100.
	Logins []LoginWarning `json:"login_warnings"`
}

// TenantStatus is one instance.
type TenantStatus struct {
	Tenant       string    `json:"tenant"`
	Database     string    `json:"database"` // without credentials
	Schemas      []string  `json:"schemas"`
	State        string    `json:"state"` // building, resident, draining, closing
	Bytes        int64     `json:"bytes"`
	Leases       int       `json:"leases"`
	LastUse      time.Time `json:"last_use"`
	BuildSeconds float64   `json:"build_seconds"`
}

// InstanceStatus is residency.Stats with names for JSON.
type InstanceStatus struct {
	Budget       int64             `json:"budget_bytes"`
	Charged      int64             `json:"charged_bytes"`
	Capacity     int               `json:"capacity"`
	Resident     int               `json:"resident"`
	Leased       int               `json:"leased"`
	Draining     int               `json:"draining"`
	Closing      int               `json:"closing"`
	Building     int               `json:"building"`
	Waiting      int               `json:"waiting"`
	Hits         uint64            `json:"hits"`
	Waits        uint64            `json:"waits"`
	Begun        uint64            `json:"builds_begun"`
	Built        uint64            `json:"builds"`
	Failed       uint64            `json:"builds_failed"`
	BuildSeconds float64           `json:"build_seconds"`
	WaitSeconds  float64           `json:"wait_seconds"`
	Evicted      map[string]uint64 `json:"evicted"`
	Shed         map[string]uint64 `json:"shed"`
}

// Answer is the number of requests that were answered alike.
type Answer struct {
	Outcome string  `json:"outcome"`
	Code    int     `json:"code"`
	Count   uint64  `json:"count"`
	Seconds float64 `json:"seconds"`
}

// TenantCount is one of the busiest tenants.
type TenantCount struct {
	Tenant string `json:"tenant"`
	Served uint64 `json:"served"`
}

const mostTenants = 100

// Status may be called at any time, from any goroutine.
func (s *Service) Status() Status {
	st := Status{Instances: instanceStatus(s.cache.Stats()), Connections: s.pool.Stats(), Logins: s.logins.list()}
	st.Tenants = s.List()
	if len(st.Tenants) > mostTenants {
		st.Tenants = st.Tenants[:mostTenants]
	}
	s.count.into(&st)
	return st
}

// List is all instances, those used last first.
func (s *Service) List() []TenantStatus {
	list := []TenantStatus{}
	for _, in := range s.cache.Instances() {
		t := TenantStatus{State: string(in.State), Bytes: in.Bytes, Leases: in.Leases, LastUse: in.LastUse, BuildSeconds: in.Took.Seconds()}
		if r := s.tenants.get(in.Key); r != nil {
			t.Tenant, t.Schemas, t.Database = r.name, r.schemas, databaseName(r.url)
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b TenantStatus) int {
		return cmp.Or(b.LastUse.Compare(a.LastUse), cmp.Compare(a.Tenant, b.Tenant))
	})
	return list
}

func instanceStatus(r residency.Stats) InstanceStatus {
	st := InstanceStatus{
		Budget: r.Budget, Charged: r.Charged, Capacity: r.Capacity, Resident: r.Resident, Leased: r.Leased, Draining: r.Draining, Closing: r.Closing,
		Building: r.Building, Waiting: r.Waiting, Hits: r.Hits, Waits: r.Waited, Begun: r.Begun, Built: r.Built, Failed: r.BuildsFailed,
		BuildSeconds: r.BuildSeconds, WaitSeconds: r.WaitSeconds, Evicted: map[string]uint64{}, Shed: map[string]uint64{},
	}
	for cause, n := range r.Evicted {
		st.Evicted[string(cause)] = n
	}
	for reason, n := range r.Shed {
		st.Shed[string(reason)] = n
	}
	return st
}

// counters since New. A client cannot make them grow: outcomes and codes are of closed sets, and tenants are kept for the
// busiest ones only.
type counters struct {
	mu struct {
		sync.Mutex
		answers map[answerKey]*Answer
		sheds   map[string]uint64
		tenants map[string]uint64
	}
}

type answerKey struct {
	outcome string
	code    int
}

const countedTenants = 256

func (c *counters) answered(tenant, outcome string, code int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.answers == nil {
		c.mu.answers, c.mu.tenants = map[answerKey]*Answer{}, map[string]uint64{}
	}
	k := answerKey{outcome, code}
	a := c.mu.answers[k]
	if a == nil {
		a = &Answer{Outcome: outcome, Code: code}
		c.mu.answers[k] = a
	}
	a.Count++
	a.Seconds += took.Seconds()
	if code == 200 {
		c.servedLocked(tenant)
	}
}

// servedLocked counts tenants as the space-saving algorithm does (Metwally and others, 2005): a new one takes the place and the
// count of the rarest, so the busiest are right and memory is bounded.
func (c *counters) servedLocked(tenant string) {
	if n, ok := c.mu.tenants[tenant]; ok || len(c.mu.tenants) < countedTenants {
		c.mu.tenants[tenant] = n + 1
		return
	}
	rarest, least := "", ^uint64(0)
	for name, n := range c.mu.tenants {
		if n < least {
			rarest, least = name, n
		}
	}
	delete(c.mu.tenants, rarest)
	c.mu.tenants[tenant] = least + 1
}

func (c *counters) shed(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.sheds == nil {
		c.mu.sheds = map[string]uint64{}
	}
	c.mu.sheds[code]++
}

const shownTenants = 20

func (c *counters) into(st *Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Sheds = map[string]uint64{CodeOverloaded: 0, CodeBuild: 0, CodeRotating: 0, CodeUnavailable: 0}
	for code, n := range c.mu.sheds {
		st.Sheds[code] = n
	}
	st.Answers = []Answer{}
	for _, a := range c.mu.answers {
		st.Answers = append(st.Answers, *a)
	}
	st.Busiest = []TenantCount{}
	for name, n := range c.mu.tenants {
		st.Busiest = append(st.Busiest, TenantCount{name, n})
	}
	slices.SortFunc(st.Busiest, func(a, b TenantCount) int {
		return cmp.Or(cmp.Compare(b.Served, a.Served), cmp.Compare(a.Tenant, b.Tenant))
	})
	st.Busiest = st.Busiest[:min(len(st.Busiest), shownTenants)]
}
