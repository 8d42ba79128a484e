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

// Config says what to watch. The zero value is good.
type Config struct {
	// NetNS is the file descriptor of the network namespace. It must stay open while Watch
	// runs. 0 means the program's own; another one needs CAP_SYS_ADMIN.
	NetNS int
}

func (c Config) validate() error {
	if c.NetNS < 0 {
		return fmt.Errorf("interfaces: NetNS: %d is no file descriptor", c.NetNS)
	}
	return nil
}

// Read returns the interfaces as they are now. Errors: those of the kernel's lists.
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

// Watch calls changed with a snapshot at the start, and with a new one whenever an interface came,
// went, was renamed, set up or down or has other properties or addresses: once for all that
// happened since the last call, and also where something changed and changed back. What happens
// from the first call on is not missed: where the kernel had to drop messages, everything is read
// again and changed is called.
//
// It returns when ctx is done, with its error, or when the kernel cannot be listened to.
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

// state has the interfaces of the namespace as the events so far describe them.
type state struct {
	links rtnl.Links
	// interfaces are made from links when a snapshot needs them, by index. A changed link has none.
	interfaces map[int]*Interface
	// news is whether anything changed since the last snapshot.
	news bool
}

// read replaces all by what the kernel lists. The listener is there already: what changes while
// this reads is told later, and perhaps again.
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
	// While messages are on their way, two may have one name.
	slices.SortFunc(all, func(a, b *Interface) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Index, b.Index))
	})
	return &Snapshot{byName: all}
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
