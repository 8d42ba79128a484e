// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// Config selects the network namespace to watch. The zero value means the program's own namespace.
type Config struct {
	// NetNS is the file descriptor of the network namespace. It must stay open while Watch runs. 0
	// means the program's own namespace. Another namespace needs CAP_SYS_ADMIN.
	NetNS int
}

func (c Config) validate() error {
	if c.NetNS < 0 {
		return fmt.Errorf("interfaces: Config.NetNS: %d is not a file descriptor", c.NetNS)
	}
	return nil
}

// Read returns the current interfaces. Errors: the interfaces cannot be read from the kernel.
func Read(cfg Config) (*Snapshot, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &state{}
	if err := s.read(cfg); err != nil {
		return nil, err
	}
	return s.snapshot(), nil
}

// Watch calls the function changed with a snapshot of the interfaces, first at once, and then again
// after each change. A change is that an interface is added, removed, renamed, or set up or down,
// or that its addresses or other properties change. One call may report several changes together.
// If a change was undone before the call, the snapshot may be equal to the one before.
//
// Watch misses no change after the first call. If the kernel's notifications do not fit the
// socket's buffer, Watch reads everything again and calls the function.
//
// When ctx is done, Watch returns the error of ctx. If it cannot receive notifications, it returns
// another error.
func Watch(ctx context.Context, cfg Config, changed func(*Snapshot)) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	monitor, err := rtnl.Listen(rtnl.Config{NetNS: cfg.NetNS}, rtnl.GroupLinks, rtnl.GroupAddresses)
	if err != nil {
		return fmt.Errorf("interfaces: listen: %w", err)
	}
	defer monitor.Close()
	known := &state{}
	for missed := true; ; {
		if missed {
			if err := known.read(cfg); err != nil {
				return err
			}
		}
		if known.news {
			known.news = false
			changed(known.snapshot())
		}
		if err := monitor.Wait(ctx); err != nil {
			return err
		}
		if missed, err = monitor.Poll(known.update); err != nil {
			return fmt.Errorf("interfaces: listen: %w", err)
		}
	}
}

// state has the interfaces of the namespace, according to the events so far.
type state struct {
	links rtnl.Links
	// interfaces caches the interfaces of snapshots, by index. An entry is made from links when a
	// snapshot needs it, and removed when the interface changes.
	interfaces map[int]*Interface
	// news is set if anything changed since the last snapshot.
	news bool
}

// read replaces the state by the kernel's lists. The caller has already opened the monitor. So the
// monitor reports all changes that happen during the read, also those that the lists already
// contain.
func (s *state) read(cfg Config) (err error) {
	conn, err := rtnl.Dial(rtnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return fmt.Errorf("interfaces: list: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := s.links.Read(conn, time.Time{}); err != nil {
		return fmt.Errorf("interfaces: list: %w", err)
	}
	s.interfaces, s.news = map[int]*Interface{}, true
	return nil
}

func (s *state) update(e *rtnl.Event) {
	if c := s.links.Update(e, time.Time{}); c.Changed {
		delete(s.interfaces, c.Index)
		s.news = true
	}
}

func (s *state) snapshot() *Snapshot {
	all := make([]*Interface, 0, len(s.links.ByIndex))
	for index, l := range s.links.ByIndex {
		i := s.interfaces[index]
		if i == nil {
			i = &Interface{
				Name: l.Name, Index: index, Up: l.Up, Running: l.Running, MTU: l.MTU, MAC: l.MAC, Kind: l.Kind,
				Master: l.Master, Addresses: slices.SortedFunc(slices.Values(l.Addresses), comparePrefixes),
			}
			s.interfaces[index] = i
		}
		all = append(all, i)
	}
	// Two interfaces can have the same name here, while notifications are on their way.
	slices.SortFunc(all, func(a, b *Interface) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Index, b.Index))
	})
	return &Snapshot{byName: all}
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
