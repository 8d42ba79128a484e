// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Config selects the table and the policy to compare.
type Config struct {
	// World has all resources of the cluster. Required.
	World verdict.World
	// Verdict has the settings of the node. The table must have been rendered with the same
	// settings.
	Verdict verdict.Config
	// Node is the name of the node that the table is for. Required.
	Node string
	// Table is the table to compare. It must be valid, and must not change meanwhile. Required.
	Table *ruleset.Table
	// HostInterface is the name of an interface of the node that belongs to no endpoint. The proof
	// assumes that remote peers are behind this interface and behind the interfaces of host
	// endpoints. The default is "eth0".
	HostInterface string
	// InterfacePrefix is the setting InterfacePrefix of render.Config: interfaces whose names begin
	// with it belong to workloads. Host endpoints with such an interface are left out. The default
	// is "way".
	InterfacePrefix string
	// Bridges maps workload interfaces to the names of their bridges. It must have each interface
	// that is a port of a bridge in render.Config.Bridges. Nil if there is none.
	Bridges map[string]string
	// Limit limits the number of differences in the Report. The default is 10.
	Limit int
	// Progress is called now and then with the number of steps that are done, and the number of all
	// steps. It may be called from several goroutines, but only from one at a time. If it returns
	// an error, the proof ends. Optional.
	Progress func(done, all int) error
}

// defaultLimit is the default of Config.Limit.
const defaultLimit = 10

func (c Config) withDefaults() Config {
	c.HostInterface = cmp.Or(c.HostInterface, "eth0")
	c.InterfacePrefix = cmp.Or(c.InterfacePrefix, "way")
	if c.Limit <= 0 {
		c.Limit = defaultLimit
	}
	if c.Progress == nil {
		c.Progress = func(int, int) error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.World == nil {
		errs = append(errs, errors.New("prove: Config.World: required"))
	}
	if c.Node == "" {
		errs = append(errs, errors.New("prove: Config.Node: required"))
	}
	if c.Table == nil {
		errs = append(errs, errors.New("prove: Config.Table: required"))
	}
	return errors.Join(errs...)
}

// Table compares a table with policy: it tries one packet of each kind that policy or the table
// distinguishes.
//
// The time is proportional to the product of three numbers: the numbers of local endpoints, of
// kinds of addresses, and of ports that the endpoints' policies mention. The time also grows with
// the size of the world and the table. The memory is proportional to this size. Table uses all
// processors.
//
// Errors: an invalid config; a table that is not valid or cannot be simulated; the context's error;
// the error of Config.Progress. A difference is no error.
func Table(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := newProver(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	found, err := p.run(ctx, cancel)
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Node: cfg.Node, Groups: len(p.groups), AddressClasses: len(p.classes),
		Packets: p.packets.Load(), Evaluations: p.evaluations.Load(), Different: p.different.Load(),
		Incomplete: p.incomplete(), NotProved: notProved(), Differences: []Difference{},
	}
	r.Complete = len(r.Incomplete) == 0
	for _, g := range p.groups {
		r.Endpoints += len(g.members)
	}
	for _, c := range found[:min(len(found), cfg.Limit)] {
		d, err := p.explain(c)
		if err != nil {
			return Report{}, err
		}
		r.Differences = append(r.Differences, d)
	}
	return r, nil
}

// incomplete lists those parts of the table and the world that cannot be compared.
func (p *prover) incomplete() (reasons []string) {
	for _, test := range p.unknownTests {
		reasons = append(reasons, "a rule compares "+test)
	}
	if len(p.own[0])+len(p.own[1]) == 0 {
		reasons = append(reasons, fmt.Sprintf("the world has no address of node %s: "+
			"packets from and to its own processes are not tried", p.cfg.Node))
	}
	if len(p.cfg.Bridges) > 0 {
		reasons = append(reasons, "packets to addresses behind a bridge that no endpoint has, "+
			"and from the spoofed sources of endpoints there, are not tried")
	}
	if len(p.hostKeys) > 0 {
		reasons = append(reasons,
			"packets forwarded between host interfaces: not every pair of addresses is tried")
	}
	for _, g := range p.groups {
		if e := g.members[0]; len(e.AllowSpoofedSourcePrefixes) > 0 {
			reasons = append(reasons, fmt.Sprintf(
				"packets from the spoofed sources of %s: only one destination is tried", e.Key()))
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// explain evaluates a packet with the whole world, and traces it through the table.
func (p *prover) explain(c comparison) (Difference, error) {
	flow := p.flow(&c)
	d := Difference{Flow: flow, Allowed: !c.want, Explanation: p.full.Explain(flow)}
	if allowed := d.Explanation.Result.Combined != verdict.Deny; allowed != c.want {
		return d, fmt.Errorf("prove: %s: the partial world has another verdict than the whole world", flow)
	}
	_, steps, err := p.simulate(&c, true)
	d.Steps = steps
	return d, err
}

// admitted returns the resource as policy enforces it, or nil if it is invalid.
func admitted(key policy.Key, r policy.Resource) policy.Resource {
	r, _ = policy.Update{Key: key, Resource: r}.Admit()
	return r
}
