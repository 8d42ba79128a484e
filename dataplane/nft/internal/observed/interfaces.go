// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/nsthread"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// Config configures Interfaces.
type Config struct {
	// NetNS is a file descriptor of the network namespace of the interfaces, needed only during
	// New. Zero means the namespace of the thread that calls New.
	NetNS int
	// List returns all interfaces, by name. Nil means to query the kernel.
	List func() (map[string]render.Interface, error)
	// Bridges are the names of the bridges whose addresses and settings are read.
	Bridges []string
}

// Interfaces caches the interfaces of the host as they were last read from the kernel.
//
// Usually, Update reads only the interfaces of new endpoints. With resync, it reads the interfaces
// of all endpoints. If the interface of a host endpoint is found by its addresses, Update may read
// all interfaces of the node. In all these cases, it takes about 9 µs to read an interface.
//
// Watch compares the kernel's notifications with the cache, and reports differences.
//
// Update holds the lock from before it reads an interface until the result is in the cache. So
// Watch compares every later change with this result.
type Interfaces struct {
	list    func() (map[string]render.Interface, error)
	bridges bridges
	// namespace is a file descriptor of the interfaces' namespace. It is valid until release; see
	// nsthread.Keep.
	namespace int
	release   func() error
	// links reads single interfaces. It is nil until it is needed.
	links *rtnl.Conn

	mu sync.Mutex
	// watching is set while Watch keeps the cache current.
	watching bool
	// all has all interfaces of the node. It is nil unless the interface of a host endpoint is
	// found by addresses.
	all map[string]render.Interface
	// masters has the masters of endpoints' interfaces.
	masters map[string]render.Master
	// version is the number of changes of masters and bridges.
	version uint64
	// missing has the interfaces of endpoints that must be read.
	missing map[string]struct{}
	// followed has the names of the interfaces of Follow, by index.
	followed map[int]string
}

// New returns Interfaces with an empty cache. The network namespace stays open until Close.
//
// Errors: the namespace cannot be opened; on systems other than Linux, errors.ErrUnsupported.
func New(cfg Config) (*Interfaces, error) {
	namespace, release, err := nsthread.Keep(cfg.NetNS)
	if err != nil {
		return nil, err
	}
	return &Interfaces{
		list: cfg.List, bridges: bridges{names: cfg.Bridges}, namespace: namespace, release: release,
		masters: map[string]render.Master{}, missing: map[string]struct{}{},
	}, nil
}

// Reset empties the cache.
func (o *Interfaces) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bridges.known = false
	o.all, o.masters, o.missing = nil, map[string]render.Master{}, map[string]struct{}{}
}

// Close closes the connection and the namespace, and returns their errors.
func (o *Interfaces) Close() error { return errors.Join(o.closeLinks(), o.release()) }

// Watch compares each change that the kernel reports with the cache. If they differ, it calls
// report with a text that names the first difference, such as "the master of interface cali1".
//
// Errors: the context's error, or the failure that ended Watch.
func (o *Interfaces) Watch(ctx context.Context, report func(object string)) error {
	defer o.stopWatching()
	return interfaces.Watch(ctx, interfaces.Config{NetNS: o.namespace}, func(s *interfaces.Snapshot) {
		if object := o.differs(s); object != "" {
			report(object)
		}
	})
}

func (o *Interfaces) stopWatching() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watching = false
}

// differs names the first difference between a snapshot and the cache. It returns "" if there is
// none.
func (o *Interfaces) differs(s *interfaces.Snapshot) (object string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watching = true
	if o.all != nil && !render.SameAddresses(o.all, interfacesOf(s)) {
		return "the addresses of interfaces"
	}
	if object := o.bridgesDiffer(s); object != "" {
		return object
	}
	for _, i := range s.All() {
		if name := o.followed[i.Index]; name != "" && i.Name != name {
			return "the name of interface " + name
		}
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

// Update reads the interfaces of endpoints and passes them to the renderer. With resync, it reads
// the interfaces of all endpoints. Otherwise it reads the interfaces of endpoints that are new
// since the last call and, while Watch does not run, of changed endpoints.
//
// If the interface of a new endpoint cannot be read, Update returns the error, and the endpoint is
// at fault. The renderer reports the endpoint, and drops its packets.
//
// Errors: those of reading the kernel, and of Config.List.
func (o *Interfaces) Update(r *render.Renderer, resync bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range r.ChangedInterfaces() {
		_, known := o.masters[name]
		switch {
		case !r.HasInterface(name):
			delete(o.masters, name)
			delete(o.missing, name)
			o.version++
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
	err := o.readAll(r, resync)
	if err == nil {
		err = o.lookUpMissing(r)
	}
	if err == nil {
		err = o.readBridges(resync)
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

// readAll reads all interfaces of the node in two cases: the interface of a host endpoint is found
// by addresses, or Config.List is set.
func (o *Interfaces) readAll(r *render.Renderer, resync bool) error {
	byAddress := r.NeedsInterfaces()
	if !byAddress {
		o.all = nil
	}
	due := byAddress && (resync || o.all == nil || !o.watching)
	if !due && (o.list == nil || len(o.missing) == 0) {
		return nil
	}
	known, err := o.readInterfaces()
	if err != nil {
		return err
	}
	r.SetInterfaces(known)
	if byAddress {
		o.all = known
	}
	clear(o.missing)
	for name := range r.Interfaces() {
		o.setMaster(name, known[name].Master)
	}
	return nil
}

// setMaster records the master of an interface.
func (o *Interfaces) setMaster(name string, m render.Master) {
	if old, known := o.masters[name]; !known || old != m {
		o.version++
	}
	o.masters[name] = m
}

// Version returns a number that grows whenever the results of Master or BridgeAddresses may have
// changed.
func (o *Interfaces) Version() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.version
}

// Master returns the master of an endpoint's interface, as it was last read.
func (o *Interfaces) Master(name string) render.Master {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, known := o.masters[name]
	if _, missing := o.missing[name]; missing && !known {
		return render.UnknownMaster()
	}
	return m
}

// lookUpMissing reads the interfaces in missing.
func (o *Interfaces) lookUpMissing(r *render.Renderer) error {
	for name := range o.missing {
		m, err := o.lookUp(name)
		if err != nil {
			return err
		}
		r.SetMaster(name, m)
		o.setMaster(name, m)
		delete(o.missing, name)
	}
	return nil
}

// lookUp reads the master of one interface. If the interface does not exist, the result is zero.
func (o *Interfaces) lookUp(name string) (render.Master, error) {
	link, err := o.link(name)
	if err != nil || link.Master == 0 {
		return render.Master{}, err
	}
	master, err := o.links.LinkByIndex(link.Master)
	if err != nil { // the master was deleted meanwhile, and Watch gets a notification
		return render.Master{Name: fmt.Sprintf("interface %d", link.Master)}, nil
	}
	return render.Master{Name: master.Name, Kind: master.Kind}, nil
}

// Follow looks up the interfaces with the given names. The result maps the name of each interface
// that exists to its index. Until the next call of Follow, Watch reports if one of these interfaces
// gets another name.
func (o *Interfaces) Follow(names []string) (indexes map[string]int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	indexes, o.followed = map[string]int{}, map[int]string{}
	for _, name := range names {
		link, err := o.link(name)
		if err != nil {
			return nil, err
		}
		if link.Index != 0 {
			indexes[name], o.followed[link.Index] = link.Index, name
		}
	}
	return indexes, nil
}

// link reads one interface. If there is none with the name, the result is zero.
func (o *Interfaces) link(name string) (rtnl.Link, error) {
	if !ruleset.ValidIfname(name) {
		return rtnl.Link{}, nil
	}
	if o.links == nil {
		conn, err := rtnl.Dial(rtnl.Config{NetNS: o.namespace})
		if err != nil {
			return rtnl.Link{}, err
		}
		o.links = conn
	}
	link, err := o.links.Link(name)
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		return rtnl.Link{}, nil
	case err != nil:
		return rtnl.Link{}, errors.Join(fmt.Errorf("look up interface %s: %w", name, err), o.closeLinks())
	case link.Name != name: // rules do not match alternative names
		return rtnl.Link{}, nil
	}
	return link, nil
}

func (o *Interfaces) closeLinks() error {
	if o.links == nil {
		return nil
	}
	err := o.links.Close()
	o.links = nil
	return err
}

// Plan returns the master of each interface of next.Interfaces, by the interface's name. If a
// master is not in the cache, Plan reads it and passes it to the renderer. If it cannot be read, it
// is render.UnknownMaster. Unlike Update, Plan does not change the cache.
func (o *Interfaces) Plan(next *render.Renderer) map[string]render.Master {
	masters := map[string]render.Master{}
	lookUp := o.lookUp
	if o.list != nil {
		all, err := o.list()
		lookUp = func(name string) (render.Master, error) { return all[name].Master, err }
	}
	for name := range next.Interfaces() {
		m, known := o.masters[name]
		if !known {
			var err error
			if m, err = lookUp(name); err != nil {
				m = render.UnknownMaster()
			}
			next.SetMaster(name, m)
		}
		masters[name] = m
	}
	return masters
}

// readInterfaces returns all interfaces, by name.
func (o *Interfaces) readInterfaces() (map[string]render.Interface, error) {
	if o.list != nil {
		return o.list()
	}
	s, err := interfaces.Read(interfaces.Config{NetNS: o.namespace})
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

// masterFinder returns a function that returns the master of an interface of the snapshot.
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
