// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// entryKind is a kind of entry that belongs to an interface: neighbour, proxy or FDB entry.
type entryKind uint8

const (
	kindNeighbour entryKind = iota
	kindProxy
	kindFDB
)

// entryKey is the identity of a Neighbour, Proxy or FDB.
type entryKey struct {
	kind entryKind
	dev  string
	addr netip.Addr // of an FDB the zero Addr
	mac  MAC        // of an FDB
}

func (k entryKey) compare(o entryKey) int {
	return cmp.Or(cmp.Compare(k.kind, o.kind), k.addr.Compare(o.addr), slices.Compare(k.mac[:], o.mac[:]),
		strings.Compare(k.dev, o.dev))
}

// entryValue has the fields of an entry that are not part of its identity.
type entryValue struct {
	mac MAC        // of a Neighbour
	dst netip.Addr // of an FDB
}

// entryStore has the desired and the observed state of all entries of interfaces.
type entryStore = store[entryKey, entryValue]

// entryChange is one change to an entry.
type entryChange = kernelChange[entryKey, entryValue]

// entryOf splits an object into key and value.
func entryOf(o Object) (key entryKey, v entryValue, ok bool) {
	switch o := o.(type) {
	case Neighbour:
		return entryKey{kind: kindNeighbour, dev: o.Interface, addr: plainAddr(o.Addr)}, entryValue{mac: o.MAC}, true
	case Proxy:
		return entryKey{kind: kindProxy, dev: o.Interface, addr: plainAddr(o.Addr)}, entryValue{}, true
	case FDB:
		return entryKey{kind: kindFDB, dev: o.Interface, mac: o.MAC}, entryValue{dst: plainAddr(o.Dst)}, true
	}
	return entryKey{}, entryValue{}, false
}

// object returns the object with the key and a value.
func (k entryKey) object(v entryValue) Object {
	switch k.kind {
	case kindNeighbour:
		return Neighbour{Addr: k.addr, Interface: k.dev, MAC: v.mac}
	case kindProxy:
		return Proxy{Addr: k.addr, Interface: k.dev}
	default:
		return FDB{MAC: k.mac, Dst: v.dst, Interface: k.dev}
	}
}

func (k entryKey) validate(v entryValue) error {
	wrong := ""
	switch {
	case k.kind != kindFDB && !k.addr.IsValid():
		wrong = "no address"
	case k.kind == kindNeighbour && v.mac == MAC{}:
		wrong = "no MAC"
	case k.kind == kindFDB && (k.mac == MAC{} || !v.dst.IsValid()):
		wrong = "no MAC or no destination"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrObject, wrong)
}

func (k entryKey) device() (name string, needed bool) { return k.dev, true }

// flushEntries applies changes of interfaces. It reports whether the kernel has entries on an
// interface whose name may have changed.
func flushEntries(s *entryStore, f *linkEvents) (named bool) {
	for _, o := range s.slots {
		if (o.state.present || o.state.lost) && f.removes(o.state.index, o.state.reported) {
			o.state.present, o.state.lost = o.state.present && !f.deleted[o.state.index], false
			o.state.uncertain = o.state.present
			s.markDirty(o)
		}
		if f.names[o.key.dev] {
			o.state.ceded = o.state.ceded && !f.endsCeding(o.key.dev)
			s.markDirty(o)
			named = named || o.state.present
		}
	}
	return named
}

// forgetNeighbours records that the neighbour entries on an interface are gone.
func forgetNeighbours(s *entryStore, index int) {
	for _, o := range s.slots {
		if o.key.kind == kindNeighbour && o.state.present && o.state.index == index {
			o.state.present = false
			s.markDirty(o)
		}
	}
}

// missing implements objectKind. For a proxy entry, it looks the entry up in the kernel. If another
// process has made the entry and this package adds it, the kernel changes its protocol number to
// ours. The entry of the other process suffices, because a proxy entry has nothing besides its
// identity.
func (k entryKey) missing(p *pass, index int) (bool, error) {
	if k.kind != kindProxy || index < 0 { // of a device that is only planned
		return true, nil
	}
	entry, err := p.view.sockets.conn.Neighbour(index, k.addr, true)
	var refused *rtnl.Error
	switch {
	case err == nil:
		return entry.Protocol == p.cfg.Protocol, nil
	case errors.As(err, &refused): // not there, or the interface went
		return true, nil
	}
	return false, err
}

// encode appends the change to a batch.
func (k entryKey) encode(c *entryChange, b *rtnl.Batch, protocol uint8) {
	n := k.neighbour(c, protocol)
	switch {
	case c.remove:
		b.DeleteNeighbour(&n)
	case c.replace || n.Forward:
		b.ReplaceNeighbour(&n)
	default:
		b.AddNeighbour(&n)
	}
}

func (k entryKey) neighbour(c *entryChange, protocol uint8) rtnl.Neighbour {
	switch k.kind {
	case kindProxy:
		return rtnl.Neighbour{Addr: k.addr, Index: c.index, Protocol: protocol, Proxy: true}
	case kindFDB:
		return rtnl.Neighbour{
			Addr: c.value.dst, Index: c.index, MAC: rtnl.MAC(k.mac), State: rtnl.StatePermanent, Forward: true,
		}
	default:
		return rtnl.Neighbour{
			Addr: k.addr, Index: c.index, MAC: rtnl.MAC(c.value.mac), State: rtnl.StatePermanent, Protocol: protocol,
		}
	}
}

// refused implements objectKind. If the kernel learned the existing neighbour entry, refused
// replaces it. If another process made the entry, refused leaves it.
func (k entryKey) refused(p *pass, c *entryChange, err error) error {
	if k.kind != kindNeighbour || !errors.Is(err, rtnl.ErrExist) {
		return err
	}
	n := k.neighbour(c, p.cfg.Protocol)
	old, err := p.view.sockets.conn.Neighbour(n.Index, n.Addr, false)
	switch {
	case errors.Is(err, rtnl.ErrNotFound): // just expired
	case err != nil:
		return err
	case old.Static() && old.Protocol != n.Protocol && old.MAC == n.MAC:
		return errMadeByOther
	case old.Static() && old.Protocol != n.Protocol:
		c.slot.state.foreign = true
		return fmt.Errorf("%w: a neighbour entry", ErrForeign)
	}
	p.view.sockets.batch.Reset()
	p.view.sockets.batch.ReplaceNeighbour(&n)
	var refused error
	broken := p.view.sockets.send(func(_ int, err error) { refused = err })
	return errors.Join(broken, refused)
}

// text returns the change as a command line of ip or bridge.
func (k entryKey) text(p *pass, c *entryChange) string {
	dev := cmp.Or(p.view.links.nameOf(c.index), k.dev)
	six := ipFamily(k.addr)
	switch k.kind {
	case kindFDB:
		verb := "replace"
		if c.remove {
			verb = "del"
		}
		return fmt.Sprintf("bridge fdb %s %s dev %s dst %s self permanent", verb, k.mac, dev, c.value.dst)
	case kindProxy:
		if c.remove {
			return fmt.Sprintf("ip %sneigh del proxy %s dev %s", six, k.addr, dev)
		}
		return fmt.Sprintf("ip %sneigh add proxy %s dev %s protocol %d", six, k.addr, dev, p.cfg.Protocol)
	default:
		if c.remove {
			return fmt.Sprintf("ip %sneigh del %s dev %s", six, k.addr, dev)
		}
		return fmt.Sprintf("ip %sneigh replace %s lladdr %s dev %s nud permanent protocol %d",
			six, k.addr, c.value.mac, dev, p.cfg.Protocol)
	}
}
