// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// executor carries out operations, in one transaction or in parts. The caller has added the guards.
type executor struct {
	tools
	epochs  *epochs
	backlog *backlog
	names   *nameGenerator
}

// program carries out operations: in one transaction if possible, or always in parts if turns is
// set. If d is not nil, it also removes foreign objects. view is that of updater.commitOps.
func (x *executor) program(ops []ruleset.Op, d *readback.Difference, view *ruleset.State, turns bool) error {
	x.writer.announce(ops)
	if !turns {
		err := x.epochs.commitLive(ops, d)
		var size *netlink.SizeError
		if !errors.As(err, &size) {
			return err
		}
		x.tx.limit = size.Limit
	}
	err := x.inParts(ops, d, view)
	var size *netlink.SizeError
	// The kernel's limit is known only now, when parts of the change may already be committed.
	if errors.As(err, &size) && size.Limit < x.tx.limit {
		x.tx.limit = size.Limit
		return fmt.Errorf("%w, or by a part of this change: %w", errChanged, err)
	}
	if err != nil || d == nil {
		return err
	}
	return x.tx.removeForeign(d)
}

// inParts carries out operations that are too large for one transaction, or that packets would not
// see at one moment. If d is not nil, it has the foreign objects in the table. view is that of
// updater.commitOps.
func (x *executor) inParts(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) (err error) {
	p, before := phasesOf(ops), x.stats.Transactions
	x.cfg.Logger.Debug("nftables: transaction in parts", "table", x.cfg.Name, "limit", x.tx.limit)
	defer func() {
		if isRefused(err) && x.stats.Transactions != before { // the operations no longer fit the kernel's table
			err = fmt.Errorf("%w, or by a part of this change: %w", errChanged, err)
		}
	}()
	fits, err := x.fits(p.live, nil, x.epochs.writeEpoch)
	if err != nil {
		return err
	}
	reason := "" // the reason why chains must drop during the change
	if !fits || needsShadows(p.live, x.epochs.shadowConditions()) {
		reason = p.obstacle(view, d != nil)
		if reason != "" && !fits {
			return fmt.Errorf("applier: write table: %s in a transaction of more than %d bytes: %w",
				reason, x.tx.limit, unix.EMSGSIZE)
		}
		if reason == "" {
			s := x.planShadows(&p, d, view)
			switch fits, err := x.fits(s.live, d.ForeignBases(), x.epochs.writeEpochOfShadows); {
			case err != nil:
				return err
			case fits:
				return x.byShadows(s, d)
			}
			reason = "the transaction that switches to shadow chains is too large"
		}
		x.cfg.Logger.Debug("nftables: chains drop all packets while they change", "table", x.cfg.Name, "reason", reason)
	}
	if reason != "" {
		if err = x.tx.cut(p.build); err == nil {
			err = x.blocked(&p, fits, d, view)
		}
	} else {
		err = x.commitVisible(&p)
	}
	if err != nil {
		return err
	}
	if d == nil && (needsGrace(ops) || x.backlog.size > 0) {
		return x.backlog.deleteUnused(p.destroy)
	}
	if needsGrace(ops) || d != nil && d.Foreign.Maps {
		_ = x.grace.synchronize() // an error is ignored, as in deleteUnused; foreign objects are deleted next
	}
	return x.tx.cut(p.destroy)
}

// commitVisible commits the operations that packets see, and the new objects to which they refer.
// It uses one transaction, unless that would be too large, or packets would see a part of it later.
func (x *executor) commitVisible(p *phases) error {
	if !anyLate(p.build) {
		err := x.epochs.commitLive(slices.Concat(p.build, p.live), nil)
		if size := new(netlink.SizeError); !errors.As(err, &size) {
			return err
		}
	}
	if err := x.tx.cut(p.build); err != nil {
		return err
	}
	return x.epochs.commitLive(p.live, nil)
}

// fits reports whether one transaction has space for the operations, as write encodes them.
func (x *executor) fits(ops []ruleset.Op, d *readback.Difference, write epochWriter) (bool, error) {
	_, err := write(ops, d)
	return x.writer.batch.Total() <= x.tx.limit, err
}

// blocked carries out the live phase while the affected chains drop, in one transaction if fits is
// set. Affected are the chains that the phase changes, and those that look up a set that it
// changes. No packet gets through such a chain, so the phase needs no epoch.
func (x *executor) blocked(p *phases, fits bool, d *readback.Difference, view *ruleset.State) error {
	names, sets := p.concerned(view)
	var guards, removals []ruleset.Op
	for _, name := range names {
		c := view.Chain(name)
		guards = append(guards, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Rule: dropGuard()})
		removals = append(removals, ruleset.Op{Kind: ruleset.DeleteRule, Chain: c})
	}
	moved := slices.Clone(p.live)
	for i := range moved {
		if c := moved[i].Chain; c != nil && slices.Contains(names, c.Name) {
			moved[i].Index++
		}
	}
	if d != nil { // these chains are deleted later, with the rest of their rules
		for _, name := range d.Foreign.Chains {
			if slices.ContainsFunc(d.Foreign.Lookups[name], func(s string) bool { return sets[s] }) {
				foreign := &ruleset.Chain{Name: name}
				guards = append(guards, ruleset.Op{Kind: ruleset.InsertRule, Chain: foreign, Rule: dropGuard()})
			}
		}
	}
	if err := x.tx.cut(guards); err != nil {
		return err
	}
	_ = x.grace.synchronize() // if the kernel refuses to wait, a packet under way may use parts of both states
	commit := x.tx.cut
	if fits {
		commit = x.tx.commitPlain
	}
	if err := commit(moved); err != nil {
		return err
	}
	return x.tx.cut(removals)
}

// planShadows returns a plan that carries out operations by shadows. It announces the new sets to
// the writer.
func (x *executor) planShadows(p *phases, d *readback.Difference, view *ruleset.State) *shadowPlan {
	s := p.shadows(view, x.cfg.Epoch.Set, func() string { return x.names.unused(view, d) })
	for i := range s.build {
		if op := &s.build[i]; op.Kind == ruleset.AddSet {
			x.writer.fresh[op.Set.Name] = op.Set
		}
	}
	return s
}

// byShadows carries out a plan. If d is not nil, it has the foreign objects in the table. Foreign
// base chains may look up sets that change after the step live, so that step deletes them.
func (x *executor) byShadows(s *shadowPlan, d *readback.Difference) error {
	x.cfg.Logger.Debug("nftables: change through shadow chains", "table", x.cfg.Name, "chains", len(s.back))
	err := x.tx.cut(s.build)
	if err == nil {
		_ = x.grace.synchronize() // if the kernel refuses to wait, a packet under way may use parts of both states
		err = x.epochs.commitWith(s.live, d.ForeignBases(), x.epochs.writeEpochOfShadows)
	}
	if err != nil {
		_ = x.tx.cut(s.destroy[:s.shadows]) // reconcile removes the rest once the table is read back
		return err
	}
	if d != nil {
		d.Foreign.Chains = slices.DeleteFunc(d.Foreign.Chains, func(name string) bool {
			return slices.Contains(d.Foreign.Bases, name)
		})
		d.Foreign.Bases = nil
	}
	_ = x.grace.synchronize() // if the kernel refuses to wait, packets under way may miss an object
	if err := x.tx.cut(s.sync); err != nil {
		return err
	}
	if err := x.tx.cut(s.back); err != nil {
		return err
	}
	_ = x.grace.synchronize() // if the kernel refuses to wait, packets under way may miss an object
	return x.tx.cut(s.destroy)
}

// runSteps carries out the last steps of a change, after a grace period. waited is set if there was
// a grace period since the change. The steps change no verdict, so they need no epoch.
func (x *executor) runSteps(steps [][]ruleset.Op, waited bool) error {
	for _, step := range steps {
		if len(step) == 0 {
			continue
		}
		if !waited {
			_ = x.grace.synchronize() // if the kernel refuses, a packet under way may use parts of both states
			waited = true
		}
		if err := x.tx.cut(step); err != nil {
			return err
		}
	}
	return nil
}
