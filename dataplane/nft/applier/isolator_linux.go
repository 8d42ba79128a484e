// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// attempts limits the refusals that isolate examines before it gives up.
const attempts = 16

// rejection has the kernel's error and message about an object that it refuses.
type rejection struct {
	err    error
	detail string
}

// fallback is a desired state without the objects that the kernel refuses. A chain at fault is
// replaced by a chain that drops. A set at fault is left out, and all chains that reference it are
// replaced by chains that drop. All other chains are those of the desired state, so no packet
// passes that the desired state forbids. A base chain cannot be held back, because it would drop
// all packets.
type fallback struct {
	held   map[Object]rejection
	target *ruleset.State
	// chains has, for each held object, the chains that drop because of it.
	chains map[Object][]string
}

// isolator finds the objects that the kernel refuses, and programs the rest.
type isolator struct {
	cfg     *Config
	desired *desiredState
	updater *updater
}

// isolate finds the objects at fault after a refusal, and programs the rest. The kernel checks the
// trial transactions without committing them. done reports that the rest is programmed, that the
// table changed meanwhile, or that the context is done. If done is true, err is the error to
// report. If done is false, the change has failed, but parts of it may be written.
func (i *isolator) isolate(ctx context.Context, d *readback.Difference, refusal error) (done bool, err error) {
	actual, err := i.desired.actual(d)
	if err != nil {
		return false, nil
	}
	held := map[Object]rejection{}
	for range attempts {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		blamed := blame(refusal)
		// If the kernel names an object that is to be deleted, another object is at fault.
		maps.DeleteFunc(blamed, func(o Object, _ rejection) bool { return !i.desired.wanted(o) })
		if len(blamed) == 0 || i.blamesBase(blamed) {
			blamed = i.bisect(actual, d, held, rejection{refusal, detailOf(refusal)})
		}
		found := false
		for o, c := range blamed {
			if _, known := held[o]; !known {
				held[o], found = c, true
			}
		}
		if !found {
			return false, nil // nothing to hold back, or the kernel refuses the rest, too
		}
		ops, s, err := i.without(actual, held)
		if err != nil {
			return false, nil
		}
		if refusal = i.updater.check(ops, s.target, d); refusal != nil {
			if !isRefused(refusal) {
				return false, nil
			}
			continue
		}
		if err := i.updater.carryOut(ops, s.target, d); err != nil {
			if isRefused(err) {
				refusal = err
				continue
			}
			return errors.Is(err, errChanged), err
		}
		i.desired.synced = true
		return true, i.report(s)
	}
	return false, nil
}

// blame returns the objects that a refusal names.
func blame(err error) map[Object]rejection {
	var refused *nfnl.CommitError
	if !errors.As(err, &refused) {
		return nil
	}
	blamed := map[Object]rejection{}
	for _, f := range refused.Failures {
		var o Object
		switch {
		case f.Object.Kind == "chain" || f.Object.Kind == "rule":
			o = Object{"chain", f.Object.Name}
		case strings.HasSuffix(f.Object.Kind, "set"):
			o = Object{"set", f.Object.Name}
		default:
			continue
		}
		if _, known := blamed[o]; !known { // the first failure of an object is the cause
			blamed[o] = rejection{f.Err, f.Detail}
		}
	}
	return blamed
}

// blamesBase reports whether a refusal names a base chain. When rules of a base chain are added,
// the kernel validates all reachable chains. So the fault may be in a chain to which the base chain
// leads.
func (i *isolator) blamesBase(blamed map[Object]rejection) bool {
	for o := range blamed {
		if c := i.desired.Chain(o.Name); o.Kind == "chain" && c != nil && c.Hook != nil {
			return true
		}
	}
	return false
}

// without returns a fallback without the held objects, and the operations that change the kernel's
// table to that fallback.
func (i *isolator) without(actual *ruleset.State, held map[Object]rejection) ([]ruleset.Op, *fallback, error) {
	target := i.desired.Clone()
	s := &fallback{held: held, target: target, chains: map[Object][]string{}}
	var delta ruleset.Delta
	replaced := map[string]bool{}
	for _, o := range slices.SortedFunc(maps.Keys(held), compareObjects) {
		for _, c := range sortedChains(i.desired.State) {
			name := c.Name
			if o != (Object{"chain", name}) && !(o.Kind == "set" && references(c, map[string]bool{o.Name: true})) {
				continue
			}
			if c.Hook != nil {
				return nil, nil, fmt.Errorf("applier: hold back %s: base chain %s depends on it", o, name)
			}
			s.chains[o] = append(s.chains[o], name)
			if !replaced[name] {
				replaced[name] = true
				delta.Chains = append(delta.Chains, fallbackChain(name, held[o]))
			}
		}
		if o.Kind == "set" && i.desired.Set(o.Name) != nil {
			delta.DeleteSets = append(delta.DeleteSets, o.Name)
		}
	}
	change, err := target.Prepare(&delta)
	if err != nil {
		return nil, nil, err
	}
	target.Commit(change)
	change, err = actual.Prepare(actual.DeltaTo(target.Table()))
	if err != nil {
		return nil, nil, err
	}
	return change.Ops, s, nil
}

// fallbackChain returns the chain that replaces a refused chain.
func fallbackChain(name string, c rejection) *ruleset.Chain {
	comment := fmt.Sprintf("held back: %v", c.err)
	return &ruleset.Chain{Name: name, Rules: []ruleset.Rule{{
		Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Drop}},
		Comment:    comment[:min(len(comment), ruleset.MaxComment)],
	}}}
}

func compareObjects(a, b Object) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// bisect finds the objects at fault if the kernel names none. These are objects without which the
// kernel accepts the rest. The kernel checks the trial transactions without committing them.
func (i *isolator) bisect(
	actual *ruleset.State, d *readback.Difference, held map[Object]rejection, why rejection,
) map[Object]rejection {
	accepted := func(objects []Object) bool {
		try := maps.Clone(held)
		for _, o := range objects {
			try[o] = why
		}
		ops, s, err := i.without(actual, try)
		return err == nil && i.updater.check(ops, s.target, d) == nil
	}
	candidates := i.candidates(actual)
	if accepted(nil) || !accepted(candidates) {
		return nil // the refusal was temporary, or holding back objects does not help
	}
	blamed := map[Object]rejection{}
	for _, o := range minimal(candidates, nil, accepted) {
		blamed[o] = why
	}
	return blamed
}

// minimal returns a smallest subset of the candidates that is accepted together with rest. All
// candidates together must be accepted.
func minimal(candidates, rest []Object, accepted func([]Object) bool) []Object {
	if len(candidates) <= 1 {
		return candidates
	}
	left, right := candidates[:len(candidates)/2], candidates[len(candidates)/2:]
	with := func(a, b []Object) []Object { return slices.Concat(a, b) }
	switch {
	case accepted(with(rest, left)):
		return minimal(left, rest, accepted)
	case accepted(with(rest, right)):
		return minimal(right, rest, accepted)
	}
	first := minimal(left, with(rest, right), accepted)
	return append(first, minimal(right, with(rest, first), accepted)...)
}

// candidates returns the objects that the transaction changes and that can be held back.
func (i *isolator) candidates(actual *ruleset.State) []Object {
	change, err := actual.Prepare(actual.DeltaTo(i.desired.Table()))
	if err != nil {
		return nil
	}
	all := map[Object]bool{}
	for k := range change.Ops {
		if c := change.Ops[k].Chain; c != nil && c.Hook == nil && i.desired.Chain(c.Name) != nil {
			all[Object{"chain", c.Name}] = true
		}
		if s := change.Ops[k].Set; s != nil && i.desired.Set(s.Name) != nil && !i.usedByBase(s.Name) {
			all[Object{"set", s.Name}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), compareObjects)
}

func (i *isolator) usedByBase(set string) bool {
	return slices.ContainsFunc(i.desired.Chains(), func(c *ruleset.Chain) bool {
		return c.Hook != nil && references(c, map[string]bool{set: true})
	})
}

// report records the objects that are held back, and returns their errors.
func (i *isolator) report(s *fallback) error {
	clear(i.desired.held)
	var errs []error
	for _, o := range slices.SortedFunc(maps.Keys(s.held), compareObjects) {
		c := s.held[o]
		e := &ObjectError{Object: o, Chains: s.chains[o], Err: c.err}
		i.desired.held[o] = e
		i.cfg.Logger.Error(
			"nftables: held back", "table", i.cfg.Name, "object", o.String(), "error", c.err, "detail", c.detail,
		)
		errs = append(errs, &Error{Op: "write " + o.String(), Detail: c.detail, Err: e})
	}
	return errors.Join(errs...)
}
