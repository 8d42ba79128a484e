// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// feature is something that not every kernel from 5.10 on has.
type feature struct {
	name, kernel string
	// needs returns what an operation needs it for, if it does.
	needs func(op *ruleset.Op) (Object, bool)
	// probe is a table that has it.
	probe func() *ruleset.Table
}

// features are probed once each, when first needed: the kernel checks a table that uses the
// feature, without creating it.
func features() []feature {
	chainOf := func(op *ruleset.Op, is func(*ruleset.Hook) bool) (Object, bool) {
		if op.Kind != ruleset.AddChain || op.Chain.Hook == nil || !is(op.Chain.Hook) {
			return Object{}, false
		}
		return Object{"chain", op.Chain.Name}, true
	}
	accept := ruleset.Verdict{Kind: ruleset.Accept}
	hooked := func(family ruleset.Family, point ruleset.HookPoint, rules ...ruleset.Rule) func() *ruleset.Table {
		return func() *ruleset.Table {
			hook := &ruleset.Hook{Point: point, Policy: accept, Devices: []string{"lo"}}
			return &ruleset.Table{Family: family, Name: "probe", Chains: []*ruleset.Chain{{
				Name: "c", Hook: hook, Rules: rules,
			}}}
		}
	}
	return []feature{
		{
			name: "the egress hook", kernel: "5.16",
			needs: func(op *ruleset.Op) (Object, bool) {
				return chainOf(op, func(h *ruleset.Hook) bool { return h.Point == ruleset.Egress })
			},
			probe: hooked(ruleset.FamilyNetdev, ruleset.Egress),
		},
		{
			name: "the ingress hook in an inet table", kernel: "5.10",
			needs: func(op *ruleset.Op) (Object, bool) {
				return chainOf(op, func(h *ruleset.Hook) bool {
					return h.Point == ruleset.Ingress && op.Family == ruleset.FamilyINet
				})
			},
			probe: hooked(ruleset.FamilyINet, ruleset.Ingress),
		},
		{
			name: "reject in a netdev table", kernel: "5.11",
			needs: func(op *ruleset.Op) (Object, bool) {
				return rejects(op)
			},
			probe: hooked(ruleset.FamilyNetdev, ruleset.Ingress, ruleset.Rule{
				Statements: []ruleset.Statement{ruleset.Reject{}},
			}),
		},
		{
			name: "counters of set elements", kernel: "5.7",
			needs: func(op *ruleset.Op) (Object, bool) {
				if op.Kind != ruleset.AddSet || !op.Set.Counter {
					return Object{}, false
				}
				return Object{"set", op.Set.Name}, true
			},
			probe: func() *ruleset.Table {
				return &ruleset.Table{Name: "probe", Sets: []*ruleset.Set{{
					Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Counter: true,
				}}}
			},
		},
		{
			name: "intervals of concatenations", kernel: "5.6",
			needs: func(op *ruleset.Op) (Object, bool) {
				if op.Kind != ruleset.AddSet || !op.Set.Interval || len(op.Set.Key) < 2 {
					return Object{}, false
				}
				return Object{"set", op.Set.Name}, true
			},
			probe: func() *ruleset.Table {
				key := []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}
				return &ruleset.Table{Name: "probe", Sets: []*ruleset.Set{{Name: "s", Key: key, Interval: true}}}
			},
		},
	}
}

// rejects reports whether an operation puts a rejection into a netdev table.
func rejects(op *ruleset.Op) (Object, bool) {
	if op.Family != ruleset.FamilyNetdev || op.Kind != ruleset.InsertRule && op.Kind != ruleset.ReplaceRule {
		return Object{}, false
	}
	for _, s := range op.Rule.Statements {
		if _, ok := s.(ruleset.Reject); ok {
			return Object{"chain", op.Chain.Name}, true
		}
	}
	return Object{}, false
}

// probe returns a *FeatureError if operations need what the kernel has not.
func (a *Applier) probe(ops []ruleset.Op) error {
	for i := range ops {
		switch ops[i].Kind {
		case ruleset.AddChain, ruleset.AddSet:
		case ruleset.InsertRule, ruleset.ReplaceRule:
			if ops[i].Family != ruleset.FamilyNetdev {
				continue
			}
		default:
			continue
		}
		for f := range a.known {
			o, needs := a.known[f].needs(&ops[i])
			if !needs {
				continue
			}
			err, asked := a.features[a.known[f].name]
			if !asked {
				err = a.ask(&a.known[f])
				if err == nil || isRefused(err) { // Anything else says nothing about the kernel.
					a.features[a.known[f].name] = err
				}
			}
			if isRefused(err) {
				return &FeatureError{Feature: a.known[f].name, Kernel: a.known[f].kernel, Object: o, Err: err}
			}
		}
	}
	return nil
}

// ask has the kernel check a table that has the feature.
func (a *Applier) ask(f *feature) error {
	t := f.probe()
	e := newEncoder(t.Family, t.Name)
	none := func(string) *ruleset.Set { return nil }
	e.begin()
	for _, s := range t.Sets {
		e.set(s)
	}
	for _, c := range t.Chains {
		e.chain(c)
		for i := range c.Rules {
			e.rule(c.Name, i, &c.Rules[i], none, place{flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
		}
	}
	if err := e.finish(); err != nil {
		return err
	}
	return a.conn.Check(e.batch)
}
