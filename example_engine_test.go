// SPDX-License-Identifier: Apache-2.0

package wayleave_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// access is an object of the engine's own API: who may connect to whom, on which TCP port.
type access struct {
	name, from, to string // from and to are selectors
	port           uint16
}

// policy translates the object. An empty selector would mean everyone, so it is refused.
func (a access) policy() (*policy.Policy, error) {
	if a.from == "" || a.to == "" {
		return nil, fmt.Errorf("access %s: from and to are required", a.name)
	}
	p := &policy.Policy{Namespace: "shop", Name: a.name, Selector: a.to, Ingress: []policy.Rule{{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source:      policy.EntityRule{Selector: a.from},
		Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(a.port)}},
	}}}
	return p, p.Validate() // parses the selectors, too
}

// engine is a policy engine in the process of one node.
type engine struct {
	world  verdict.World // the current resources
	runner *calcgraph.Runner
	driver *dataplane.Driver
}

func newEngine(node string, dataplanes ...dataplane.Dataplane) (*engine, error) {
	hooks := calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { fmt.Println("absent:", key, err) },
		Doubt:    func(key policy.Key, doubt *policy.DoubtError) { fmt.Println("rules closed:", key, doubt) },
	}
	graph, graphErr := calcgraph.New(calcgraph.Config{Node: node, Hooks: hooks})
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: dataplanes})
	if err = errors.Join(graphErr, err); err != nil {
		return nil, err
	}
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: driver.Send})
	return &engine{world: verdict.World{}, runner: runner, driver: driver}, err
}

// set adds or replaces resources. They are programmed some milliseconds later.
func (e *engine) set(ctx context.Context, resources ...policy.Resource) error {
	e.world.Set(resources...)
	var updates []policy.Update
	for _, r := range resources {
		updates = append(updates, policy.Update{Key: r.Key(), Resource: r})
	}
	return e.runner.Update(ctx, updates)
}

// wait returns once all resources that were set are programmed.
func (e *engine) wait(ctx context.Context) error {
	return errors.Join(e.runner.Barrier(ctx), e.driver.WaitApplied(ctx))
}

// preview returns the verdicts that a resource would change.
func (e *engine) preview(r policy.Resource) (probe.Difference, error) {
	after := maps.Clone(e.world)
	after.Set(r)
	return probe.Diff(e.world, after, probe.DiffConfig{})
}

// A policy engine with an API of its own. A Mirror takes the place of the kernel.
func Example_policyEngine() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mirror := dptest.NewMirror()
	e, err := newEngine("node-1", mirror)
	must(err)
	go e.driver.Run(ctx)
	go e.runner.Run(ctx)

	web, db := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.1.1")
	must(e.set(ctx,
		&policy.Profile{Name: "outgoing", Egress: []policy.Rule{{Action: policy.Allow}}},
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "web", Node: "node-2", Interface: "way0", Profiles: []string{"outgoing"},
			Labels: map[string]string{"app": "web"}, Addresses: []netip.Addr{web},
		},
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "db", Node: "node-1", Interface: "way0", Profiles: []string{"outgoing"},
			Labels: map[string]string{"app": "db"}, Addresses: []netip.Addr{db},
		},
	))
	must(e.runner.InSync(ctx)) // once: the initial state is complete

	allow, err := access{name: "db", from: `app == "web"`, to: `app == "db"`, port: 5432}.policy()
	must(err)
	difference, err := e.preview(allow)
	must(err)
	for _, pair := range difference.Pairs {
		for _, c := range pair.Changes {
			fmt.Println("would change:", pair.From, pair.To, c.Ports[0].Port, c.Before, "to", c.After)
		}
	}
	must(e.set(ctx, allow))
	must(e.wait(ctx))
	fmt.Print(mirror.State())

	flow := verdict.Flow{Src: web, SrcPort: 40000, Dst: db, DstPort: 22, Protocol: policy.ProtocolTCP}
	fmt.Println("ssh:", verdict.Explain(e.world, flow).Ingress.Decision)
	// Output:
	// would change: [shop/web] [shop/db] tcp/5432 Deny to Allow
	// ipset s:lJBhNRljR9R5cj5JnoqyWyAWYfVVg5fFHQTCUA nets [10.0.0.1/32]
	// policy Policy/shop/db tier default: ingress allow tcp src s:lJBhNRljR9R5cj5JnoqyWyAWYfVVg5fFHQTCUA dst ports 5432
	// profile outgoing: egress allow
	// endpoint WorkloadEndpoint/shop/db way0 [10.0.1.1] ingress default:deny[Policy/shop/db] egress - profiles [outgoing]
	// route 10.0.1.1/32 local-workload node node-1
	// in-sync
	// ssh: no rule of tier default decided
}
