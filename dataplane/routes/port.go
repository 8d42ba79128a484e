// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// kindBridge is the kernel's name of the kind of bridges. Config.Bridges has no effect on devices
// of other kinds.
const kindBridge = "bridge"

// errPort: the interface is a port of one of Config.Bridges. Objects on such an interface must not
// be in the kernel, which is no fault.
var errPort = errors.New("interface is a port of a bridge for workloads")

// port reports whether an interface is a port of one of the configured bridges. A tunnel device of
// ours does not count.
func (l *links) port(link *rtnl.Link) bool {
	if len(l.bridges) == 0 || link.Master == 0 || slices.Contains(l.devices, link.Name) {
		return false
	}
	master := l.ByIndex[link.Master]
	return master != nil && l.bridge(&master.Link)
}

// portNamed is port for a name, which may be that of no interface.
func (l *links) portNamed(name string) bool {
	s := l.ByName[name]
	return s != nil && l.port(&s.Link)
}

func (l *links) bridge(link *rtnl.Link) bool {
	return link.Kind == kindBridge && slices.Contains(l.bridges, link.Name)
}

// ports adds the names of all ports of the configured bridges.
func (l *links) ports(names map[string]bool) {
	for name, s := range l.ByName {
		if l.port(&s.Link) {
			names[name] = true
		}
	}
}

// portsOf returns those ports of the configured bridges that an event about a link can affect.
// These are the link itself if it is such a port, and all ports if it is a configured bridge.
func (l *links) portsOf(index int) map[string]bool {
	s := l.ByIndex[index]
	if len(l.bridges) == 0 || s == nil {
		return nil
	}
	names := map[string]bool{}
	if l.port(&s.Link) {
		names[s.Name] = true
	}
	if l.bridge(&s.Link) {
		l.ports(names)
	}
	return names
}

// addPorts adds the interfaces that became ports of the configured bridges, or are no longer ports.
// Their objects are treated as if the interface had gone or appeared.
func (f *linkEvents) addPorts(before, after map[string]bool) {
	for _, both := range [][2]map[string]bool{{before, after}, {after, before}} {
		for name := range both[0] {
			if !both[1][name] {
				f.names[name], f.returned[name] = true, true
			}
		}
	}
}

// flushPorts marks the objects on all ports after everything was read. If the kernel has such
// objects, the next pass removes them.
func (k *kernelView) flushPorts() {
	if len(k.links.bridges) == 0 {
		return
	}
	f := newLinkEvents()
	k.links.ports(f.names)
	k.stores.routes.flush(f)
	flushEntries(k.stores.entries, f)
}

// validateBridges checks the names of bridges. The name of a tunnel device of ours is not allowed.
func (c Config) validateBridges() error {
	var errs []error
	for i, name := range c.Bridges {
		switch {
		case !validInterface(name):
			errs = append(errs, fmt.Errorf("routes: Config.Bridges[%d]: %q is not an interface name", i, name))
		case slices.Contains(c.devices(), name):
			errs = append(errs, fmt.Errorf("routes: Config.Bridges[%d]: %q is the name of a tunnel device", i, name))
		case slices.Contains(c.Bridges[:i], name):
			errs = append(errs, fmt.Errorf("routes: Config.Bridges[%d]: %q is duplicated", i, name))
		}
	}
	return errors.Join(errs...)
}
