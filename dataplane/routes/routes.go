// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// Causes of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrNoInterface: the endpoint's interface does not exist (yet).
	ErrNoInterface = errors.New("no such interface")
	// ErrInterfaceDown: the endpoint's interface is not up (yet).
	ErrInterfaceDown = errors.New("interface is down")
	// ErrForeign: somebody else has a route to the same destination, or a static neighbour entry
	// with another MAC. It is left alone.
	ErrForeign = errors.New("exists and is not ours")
	// ErrContested: another endpoint has the address, one with a smaller key.
	ErrContested = errors.New("address is that of another endpoint")
	// ErrEndpoint: a field of the endpoint makes no sense.
	ErrEndpoint = errors.New("invalid endpoint")
)

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
)

// Dataplane programs routes, neighbour entries and interface settings for local endpoints. It is not safe for concurrent
// use, but for Watch.
type Dataplane struct {
	cfg  Config
	conn *rtnl.Conn // nil until needed, and after it failed
	// links tells which interfaces changed since it was last asked. It is there when conn is.
	links *rtnl.LinkMonitor
	want  *desired
	have  *observed // nil: not known
	// foreign are the prefixes that somebody else's route or entry was in the way of, at the last full reading.
	foreign map[netip.Prefix]struct{}
}

// New returns a Dataplane that has not touched the kernel yet. It reports all problems of the Config.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Dataplane{cfg: cfg, want: newDesired()}, nil
}

// Close closes the connection to the kernel and leaves the kernel's state as it is. A
// Dataplane that is used again connects again.
func (d *Dataplane) Close() error {
	if d.conn == nil {
		return nil
	}
	conn, links := d.conn, d.links
	d.conn, d.links = nil, nil
	d.have = nil // what happens from now on is not seen
	return errors.Join(links.Close(), conn.Close())
}

// Apply implements dataplane.Dataplane. The first complete state adopts routes and entries that are already
// right and removes those of ours that nobody wants. After an error the next call tries again
// what is missing, and reports whatever still is at fault. A batch that only has events of routes, tunnels and names
// costs nothing, unless something is missing; what happened to interfaces is then seen by the next other batch, or Resync.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.want.update(b)
	if !d.want.inSync {
		return nil
	}
	if b.OnlyNetwork() && d.have != nil && len(d.want.stale)+len(d.want.unset) == 0 {
		return ctx.Err()
	}
	return d.reconcile(ctx)
}

// Resync implements dataplane.Dataplane: it reads everything of ours again, and repairs.
func (d *Dataplane) Resync(ctx context.Context) error {
	if !d.want.inSync {
		return nil
	}
	d.have = nil
	return d.reconcile(ctx)
}

// Teardown implements dataplane.Dataplane. Sysctls stay as they are. If it fails it can be called again.
func (d *Dataplane) Teardown(ctx context.Context) error {
	d.want, d.have = newDesired(), nil
	err := d.reconcile(ctx)
	d.have = nil // the next state begins with a reading
	return err
}

// Plan implements dataplane.Planner. The lines are commands of ip and sysctl. Endpoints
// that Apply would report are left out, but for those that somebody else's route or neighbour entry is in the way
// of: that only shows when it is tried.
func (d *Dataplane) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !d.want.inSync && !b.CarriesInSync() {
		return "", nil
	}
	if err := d.listen(); err != nil {
		return "", err
	}
	want := d.want.clone()
	want.update(b)
	have, err := d.look(want)
	if err != nil {
		return "", err
	}
	changes, report := plan(d.cfg, want, have)
	var text strings.Builder
	var last string
	for _, c := range changes {
		if line := c.String(); !report.withholds(c) && line != last { // a sysctl that two endpoints need comes twice
			text.WriteString(line + "\n")
			last = line
		}
	}
	return text.String(), nil
}

// Watch calls changed whenever an interface came, went, was renamed, or set up or down, also if that may have
// been missed; and once at the start. The Dataplane should then be resynced, by way of its Driver. changed
// may take its time: it is called again if anything happened meanwhile. Watch returns when ctx is done, with its error, or
// when the kernel cannot be listened to. It may run beside all other methods.
func (d *Dataplane) Watch(ctx context.Context, changed func()) error {
	return rtnl.WatchLinks(ctx, rtnl.Config{Namespace: d.cfg.Namespace}, changed)
}

// reconcile brings the stale part of the desired state about. If something of unknown ownership is in
// the way that was not at the last full reading, it reads everything again and tries once more.
func (d *Dataplane) reconcile(ctx context.Context) error {
	report, inTheWay, err := d.pass(ctx)
	if err == nil && inTheWay && ctx.Err() == nil {
		d.have = nil
		report, _, err = d.pass(ctx)
	}
	if err != nil {
		return err
	}
	return report.err()
}

// pass plans and makes changes once. An error means that nothing is known of any object.
func (d *Dataplane) pass(ctx context.Context) (r *report, inTheWay bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if err := d.listen(); err != nil {
		return nil, false, err
	}
	full := d.have == nil
	have, err := d.look(d.want)
	if err != nil {
		return nil, false, err
	}
	d.have = have
	if full {
		d.foreign = nil
	}
	changes, r := plan(d.cfg, d.want, d.have)
	inTheWay = d.execute(ctx, changes, r) && !full
	if full {
		d.foreign = r.foreign
	}
	if r.broken {
		_ = d.Close() // there is nothing to lose
	}

	// What failed stays stale, and so is tried and reported next time.
	for prefix := range d.want.stale {
		if _, failed := r.prefixes[prefix]; !failed {
			delete(d.want.stale, prefix)
		}
	}
	for key := range d.want.unset {
		if _, failed := r.failures[key]; !failed {
			delete(d.want.unset, key)
		}
	}
	return r, inTheWay, nil
}

// look returns what is known of the kernel, with the links that matter to the stale part of want
// up to date. If nothing was known, all of want becomes stale.
func (d *Dataplane) look(want *desired) (*observed, error) {
	if d.have == nil {
		have, err := observe(d.conn, d.cfg)
		if err != nil {
			return nil, d.lost(err)
		}
		want.touchAll(have)
		return have, nil
	}
	have := d.have.withLinks()
	fresh := map[string]struct{}{"": {}}
	refresh := func(ep *endpoint) error {
		if _, done := fresh[ep.iface]; done {
			return nil
		}
		fresh[ep.iface] = struct{}{}
		delete(have.links, ep.iface)
		link, err := d.conn.Link(ep.iface)
		if err == nil {
			have.links[ep.iface] = link
		} else if !errors.Is(err, rtnl.ErrNotFound) {
			return d.lost(err)
		}
		return nil
	}
	for prefix := range want.stale {
		if _, ep := want.owner(prefix); ep != nil {
			if err := refresh(ep); err != nil {
				return nil, err
			}
		}
	}
	for key := range want.unset {
		if err := refresh(want.endpoints[key]); err != nil {
			return nil, err
		}
	}
	return have, nil
}

// listen connects if need be, and takes in what happened to interfaces: one that was down, if only for a moment,
// has lost its routes and neighbour entries.
func (d *Dataplane) listen() error {
	if err := d.connect(); err != nil {
		return err
	}
	events, missed, err := d.links.Events(false)
	if err != nil {
		return d.lost(err)
	}
	if missed {
		d.have = nil
	}
	if d.have == nil {
		return nil // everything is about to be read
	}
	flushed := map[int]struct{}{}
	for _, e := range events {
		if e.Gone || !e.Up {
			flushed[e.Index] = struct{}{}
		}
	}
	for _, prefix := range d.have.forget(flushed) {
		d.want.touch(prefix)
		if key, ep := d.want.owner(prefix); ep != nil {
			d.want.unset[key] = struct{}{} // the interface may be another by now
		}
	}
	return nil
}

// connect makes sure that there are connections.
func (d *Dataplane) connect() error {
	if d.conn != nil {
		return nil
	}
	cfg := rtnl.Config{Namespace: d.cfg.Namespace}
	links, err := rtnl.MonitorLinks(cfg)
	if err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "connect", Err: err}
	}
	conn, err := rtnl.Dial(cfg)
	if err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "connect", Err: errors.Join(err, links.Close())}
	}
	d.conn, d.links = conn, links
	return nil
}

// lost gives up the connection, and what was known, after an error that is not about one object.
func (d *Dataplane) lost(err error) error {
	return errors.Join(&dataplane.ApplyError{Backend: backend, Op: "read state", Err: err}, d.Close())
}
