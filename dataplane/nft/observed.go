// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// observed caches the interfaces of the host as the kernel last reported them.
//
// Apply looks up the interfaces of new endpoints, and Resync those of all endpoints. A lookup takes
// 9 µs, and a dump about as long for each interface of the node. Watch compares announcements of
// the kernel with the cache and calls for a Resync where they differ.
//
// A query holds the lock until its result is cached: Watch compares every later change with it.
type observed struct {
	mu sync.Mutex
	// watching is set while Watch keeps the cache current.
	watching bool
	// all has all interfaces while a host endpoint is found by address; nil otherwise.
	all map[string]render.Interface
	// masters has the interfaces of endpoints.
	masters map[string]render.Master
	// missing has the interfaces of endpoints to look up.
	missing map[string]struct{}
}

func newObserved() *observed {
	return &observed{masters: map[string]render.Master{}, missing: map[string]struct{}{}}
}

func (o *observed) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all, o.masters, o.missing = nil, map[string]render.Master{}, map[string]struct{}{}
}

func (o *observed) stopWatching() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watching = false
}

// differs returns the first object that differs between a snapshot and the cache, or "".
func (o *observed) differs(s *interfaces.Snapshot) (object string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watching = true
	if o.all != nil && !render.SameAddresses(o.all, interfacesOf(s)) {
		return "the addresses of interfaces"
	}
	find := masterFinder(s)
	for name, m := range o.masters {
		if i := s.Named(name); i == nil && m != (render.Master{}) || i != nil && find(i) != m {
			if object == "" || name < object {
				object = name
			}
		}
	}
	if object != "" {
		object = "the master of interface " + object
	}
	return object
}

// observe looks up the interfaces of all endpoints if resync is set, otherwise of those that are
// new since the last call. A new endpoint whose interface cannot be looked up is at fault.
func (d *Dataplane) observe(resync bool) error {
	o, r := d.observed, d.renderer
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range r.ChangedInterfaces() {
		_, known := o.masters[name]
		switch {
		case !r.HasInterface(name):
			delete(o.masters, name)
			delete(o.missing, name)
			r.SetMaster(name, render.Master{})
		case !known || !o.watching:
			o.missing[name] = struct{}{}
		}
	}
	if resync {
		for name := range r.Interfaces() {
			o.missing[name] = struct{}{}
		}
	}
	err := d.readAll(resync)
	if err == nil {
		err = d.lookUpMissing()
	}
	if err != nil {
		for name := range o.missing {
			if _, known := o.masters[name]; !known {
				r.SetMaster(name, render.UnknownMaster())
			}
		}
	}
	return err
}

// readAll reads all interfaces if a host endpoint is found by address, or if the caller provides
// them.
func (d *Dataplane) readAll(resync bool) error {
	o, r := d.observed, d.renderer
	byAddress := r.NeedsInterfaces()
	if !byAddress {
		o.all = nil
	}
	due := byAddress && (resync || o.all == nil || !o.watching)
	if !due && (d.config.Interfaces == nil || len(o.missing) == 0) {
		return nil
	}
	known, err := d.readInterfaces()
	if err != nil {
		return err
	}
	r.SetInterfaces(known)
	if byAddress {
		o.all = known
	}
	clear(o.missing)
	for name := range r.Interfaces() {
		o.masters[name] = known[name].Master
	}
	return nil
}

// lookUpMissing looks up the interfaces that are missing.
func (d *Dataplane) lookUpMissing() error {
	for name := range d.observed.missing {
		m, err := d.lookUp(name)
		if err != nil {
			return err
		}
		d.renderer.SetMaster(name, m)
		d.observed.masters[name] = m
		delete(d.observed.missing, name)
	}
	return nil
}

// lookUp returns the master of one interface, which need not exist.
func (d *Dataplane) lookUp(name string) (render.Master, error) {
	if !ruleset.ValidIfname(name) {
		return render.Master{}, nil
	}
	if d.links == nil {
		conn, err := rtnl.Dial(rtnl.Config{Namespace: d.namespace})
		if err != nil {
			return render.Master{}, err
		}
		d.links = conn
	}
	link, err := d.links.Link(name)
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		return render.Master{}, nil
	case err != nil:
		return render.Master{}, errors.Join(fmt.Errorf("look up interface %s: %w", name, err), d.closeLinks())
	case link.Name != name || link.Master == 0: // rules do not know alternative names
		return render.Master{}, nil
	}
	master, err := d.links.LinkByIndex(link.Master)
	if err != nil { // deleted meanwhile, which Watch sees
		return render.Master{Name: fmt.Sprintf("interface %d", link.Master)}, nil
	}
	return render.Master{Name: master.Name, Kind: master.Kind}, nil
}

func (d *Dataplane) closeLinks() error {
	if d.links == nil {
		return nil
	}
	err := d.links.Close()
	d.links = nil
	return err
}

// planInterfaces looks up the interfaces of new endpoints for a renderer, as Apply would.
func (d *Dataplane) planInterfaces(next *render.Renderer) {
	lookUp := d.lookUp
	if d.config.Interfaces != nil {
		all, err := d.config.Interfaces()
		lookUp = func(name string) (render.Master, error) { return all[name].Master, err }
	}
	for name := range next.Interfaces() {
		if _, known := d.observed.masters[name]; known {
			continue
		}
		m, err := lookUp(name)
		if err != nil {
			m = render.UnknownMaster()
		}
		next.SetMaster(name, m)
	}
}

// readInterfaces returns all interfaces, by name.
func (d *Dataplane) readInterfaces() (map[string]render.Interface, error) {
	if d.config.Interfaces != nil {
		return d.config.Interfaces()
	}
	s, err := interfaces.Read(interfaces.Config{Namespace: d.namespace})
	if err != nil {
		return nil, err
	}
	return interfacesOf(s), nil
}

func interfacesOf(s *interfaces.Snapshot) map[string]render.Interface {
	out := make(map[string]render.Interface, len(s.All()))
	find := masterFinder(s)
	for _, i := range s.All() {
		known := render.Interface{Master: find(i)}
		for _, p := range i.Addresses {
			known.Addresses = append(known.Addresses, p.Addr())
		}
		out[i.Name] = known
	}
	return out
}

// masterFinder returns a function that finds the master of an interface of the snapshot.
func masterFinder(s *interfaces.Snapshot) func(*interfaces.Interface) render.Master {
	var byIndex map[int]*interfaces.Interface
	return func(i *interfaces.Interface) render.Master {
		if i.Master == 0 {
			return render.Master{}
		}
		if byIndex == nil {
			byIndex = map[int]*interfaces.Interface{}
			for _, i := range s.All() {
				byIndex[i.Index] = i
			}
		}
		if m := byIndex[i.Master]; m != nil {
			return render.Master{Name: m.Name, Kind: m.Kind}
		}
		return render.Master{Name: fmt.Sprintf("interface %d", i.Master)}
	}
}
