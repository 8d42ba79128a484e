// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/rtnl"
)

const (
	// maxEarlier is how many earlier rulesets are kept for flows that began under them. A sweep mostly begins twenty milliseconds
	// after a change and takes less than a second, so it takes a storm of changes to come to more.
	maxEarlier = 16
	// maxWaiting is how many deltas are kept while programming fails; then the whole table takes their place.
	maxWaiting = 256
	// staleSlice is how many flows are judged before the latest changes are looked at: a few milliseconds' worth.
	staleSlice = 1024
)

// staleFlows ends flows that began under a ruleset that allowed them and that the present one denies. The Dataplane tells it what it
// programs; a goroutine follows, with a state of its own, and sweeps.
//
//	Apply ──▶ waiting ──commit──▶ queue ──▶ goroutine: now ──clone──▶ before
//	(deltas)  until one succeeds                        └─────after───┬────┘
//	                                                              Sweeper
//
// Its methods are for the goroutine of the Dataplane, but for stats; what only the sweeping goroutine touches is said.
type staleFlows struct {
	sweeper *conntrack.Sweeper
	logger  *slog.Logger
	table   string
	cancel  context.CancelFunc
	stopped chan struct{}
	wake    chan struct{}

	holdings *holdings
	// waiting is what the kernel may not have yet.
	waiting commit

	mu    sync.Mutex
	queue []commit

	// For the goroutine alone: where addresses are, the ruleset that the kernel has, and of each change whose
	// sweep is not done whether the ruleset before it is kept.
	routes  *routeFinder
	now     *world
	pending []bool
}

// commit is what one transaction, or several of which only the last is known to have succeeded, made different.
type commit struct {
	// reset says that what was there before is not known: no flow can be said to have begun under it.
	reset bool
	// table, if not nil, is everything; deltas come after it.
	table  *ruleset.Table
	deltas []*ruleset.Delta
	owners ownerChanges
}

func (c *commit) empty() bool {
	return !c.reset && c.table == nil && len(c.deltas) == 0 && c.owners.empty()
}

// newStaleFlows starts the goroutine, which close ends.
func newStaleFlows(cfg Config, table string) (*staleFlows, error) {
	sweeps := cfg.Conntrack
	sweeps.NetNS = cfg.NetNS
	if sweeps.Logger == nil {
		sweeps.Logger = cfg.Logger
	}
	sweeper, err := conntrack.New(sweeps)
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial(rtnl.Config{Namespace: cfg.NetNS})
	if err != nil {
		return nil, errors.Join(err, sweeper.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &staleFlows{
		sweeper: sweeper, logger: sweeps.Logger, table: table, cancel: cancel,
		stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		holdings: newHoldings(), waiting: commit{reset: true},
		routes: newRouteFinder(conn),
	}
	go s.run(ctx)
	return s, nil
}

// close ends the goroutine, waits for it, and closes the sockets. Flows whose sweep is not done go on.
func (s *staleFlows) close() error {
	s.cancel()
	<-s.stopped
	return errors.Join(s.sweeper.Close(), s.routes.conn.Close())
}

// stats are those of the sweeper; changes that it was not told of yet are pending, too.
func (s *staleFlows) stats() conntrack.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.sweeper.Stats()
	st.Pending += len(s.queue)
	return st
}

// update takes the endpoints of a batch.
func (s *staleFlows) update(b dataplane.Batch) { s.holdings.update(b) }

// changed says what is about to be programmed: a delta, or if that is not nil a whole table.
func (s *staleFlows) changed(d *ruleset.Delta, whole *ruleset.Table) {
	switch {
	case whole != nil:
		s.waiting.table, s.waiting.deltas = whole, nil
	case len(d.Chains)+len(d.DeleteChains)+len(d.Sets)+len(d.DeleteSets)+len(d.Elements) > 0:
		s.waiting.deltas = append(s.waiting.deltas, d)
	}
}

// crowded reports whether changed should be told of the whole table, as too many deltas have come since programming last succeeded.
func (s *staleFlows) crowded() bool { return len(s.waiting.deltas) >= maxWaiting }

// programmed says that the kernel has all of what was said to be changed. It ends the flows of the addresses that changed
// hands; those that it could not are tried again the next time.
func (s *staleFlows) programmed(ctx context.Context) error {
	s.waiting.owners = s.holdings.takeChanges()
	if !s.waiting.empty() {
		s.commit(s.waiting)
		s.waiting = commit{}
	}
	lost := s.holdings.lostAddresses()
	if len(lost) == 0 {
		return nil
	}
	if _, err := s.sweeper.EndAddresses(ctx, lost...); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &dataplane.ApplyError{Backend: backend, Op: fmt.Sprintf("end flows of %d addresses that changed hands", len(lost)), Err: err}
	}
	clear(s.holdings.lost)
	return nil
}

// reset says that the table was deleted, and that everything begins anew.
func (s *staleFlows) reset() {
	s.holdings, s.waiting = newHoldings(), commit{reset: true}
	s.commit(commit{reset: true, table: &ruleset.Table{Family: ruleset.FamilyINet, Name: s.table}})
}

func (s *staleFlows) commit(c commit) {
	s.mu.Lock()
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run sweeps until the context is done. All from here on is for this goroutine alone.
func (s *staleFlows) run(ctx context.Context) {
	defer close(s.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.take()
		progress, err := s.sweeper.Step(ctx, staleSlice)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("ending stale flows failed, and will be tried again", "err", err)
		}
		if err != nil || !progress.Done && progress.Wait == 0 {
			continue // after a failure, the next step says how long to rest
		}
		var due <-chan time.Time
		if progress.Done {
			s.idle()
		} else {
			timer.Reset(progress.Wait)
			due = timer.C
		}
		select {
		case <-s.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// take follows what was programmed meanwhile.
func (s *staleFlows) take() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue = nil
			s.mu.Unlock()
			return
		}
		c := s.queue[0]
		s.mu.Unlock()
		s.follow(c)
		s.mu.Lock()
		s.queue[0] = commit{}
		s.queue = s.queue[1:]
		s.mu.Unlock()
	}
}

// follow makes one commit's change in the state of our own, and has the sweeper look for flows that it denies. Of more than
// maxEarlier rulesets that wait, the last are not kept: the flows that one of those alone allowed go on.
func (s *staleFlows) follow(c commit) {
	s.routes.forget()
	var before conntrack.Judge
	s.settle()
	if s.now != nil && !c.reset && s.kept() < maxEarlier {
		before = s.now.clone().judge
	}
	if s.now == nil || c.reset {
		s.now = newWorld(s.table, s.routes)
	}
	if err := s.now.apply(&c); err != nil { // which the applier would not have taken either
		s.logger.Error("stale flows cannot be told until the table is programmed anew", "err", err)
		s.now.state = nil
	}
	if before == nil && len(s.pending) == 0 {
		return // no flow can be said to have begun under another ruleset
	}
	s.sweeper.Change(before, s.now.judge)
	s.pending = append(s.pending, before != nil)
}

// settle forgets the changes whose sweep is done: always the oldest.
func (s *staleFlows) settle() {
	done := len(s.pending) - s.sweeper.Stats().Pending
	s.pending = slices.Delete(s.pending, 0, max(0, done))
}

// kept returns how many earlier rulesets are kept.
func (s *staleFlows) kept() (n int) {
	for _, kept := range s.pending {
		if kept {
			n++
		}
	}
	return n
}

// idle lets go of what is of use during a sweep alone.
func (s *staleFlows) idle() {
	s.pending = nil
	s.routes.forget()
	if s.now != nil {
		s.now.rest()
	}
}

// side is where an address is: behind an interface, or on the node itself.
type side struct {
	iface string
	local bool
}

// routeFinder finds where addresses are that no endpoint has. It remembers what it found until told to forget.
type routeFinder struct {
	conn  *rtnl.Conn
	found map[netip.Addr][]side
	links map[int]string
}

// maxRoutes bounds what a routeFinder remembers.
const maxRoutes = 1 << 16

func newRouteFinder(conn *rtnl.Conn) *routeFinder {
	return &routeFinder{conn: conn, found: map[netip.Addr][]side{}}
}

func (r *routeFinder) forget() { r.found, r.links = emptied(r.found), nil }

// find returns the side of an address, none if it cannot be told.
func (r *routeFinder) find(a netip.Addr) []side {
	sides, ok := r.found[a]
	if !ok {
		if len(r.found) >= maxRoutes {
			r.forget()
		}
		sides = r.lookup(a)
		r.found[a] = sides
	}
	return sides
}

func (r *routeFinder) lookup(a netip.Addr) []side {
	if a.Is6() && a.IsLinkLocalUnicast() { // the same address is behind every interface
		return nil
	}
	route, err := r.conn.Lookup(a)
	switch {
	case err != nil:
		return nil
	case route.Type == rtnl.TypeLocal:
		return []side{{local: true}}
	case route.Type != rtnl.TypeUnicast:
		return nil
	}
	if r.links == nil {
		r.links = map[int]string{}
		links, err := r.conn.Links()
		if err != nil {
			return nil
		}
		for _, l := range links {
			r.links[l.Index] = l.Name
		}
	}
	switch name := r.links[route.Index]; name {
	case "":
		return nil
	case loopback:
		return []side{{local: true}}
	default:
		return []side{{iface: name}}
	}
}
