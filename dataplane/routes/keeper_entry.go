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

// entryKind is a kind of entry that belongs to an interface.
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

// entryValue is the rest of it.
type entryValue struct {
	mac MAC        // of a Neighbour
	dst netip.Addr // of an FDB
}

// entrySlot is what is wanted and known of one entry.
type entrySlot struct {
	key    entryKey
	wanted bool
	want   entryValue
	// present means that the kernel has one of ours, on the interface of this index.
	present bool
	index   int
	have    entryValue
	// heard is the number of the event that told of it; 0 if none did.
	heard uint64
	// stale, lost and foreign as in routeSlot.
	stale, lost, foreign bool
}

// entryStore are all entries of interfaces, wanted and known.
type entryStore struct {
	protocol uint8
	slots    map[entryKey]*entrySlot
	stale    []*entrySlot
}

func newEntryStore(protocol uint8) *entryStore {
	return &entryStore{protocol: protocol, slots: map[entryKey]*entrySlot{}}
}

func (s *entryStore) touch(slot *entrySlot) {
	if !slot.stale {
		slot.stale = true
		s.stale = append(s.stale, slot)
	}
}

func (s *entryStore) slot(key entryKey) *entrySlot {
	slot := s.slots[key]
	if slot == nil {
		slot = &entrySlot{key: key}
		s.slots[key] = slot
	}
	return slot
}

func (s *entryStore) set(key entryKey, v entryValue) {
	slot := s.slot(key)
	if !slot.wanted || slot.want != v {
		slot.wanted, slot.want = true, v
		s.touch(slot)
	}
}

func (s *entryStore) unset(key entryKey) {
	if slot := s.slots[key]; slot != nil && slot.wanted {
		slot.wanted = false
		s.touch(slot)
	}
}

// entryOf takes an object apart.
func entryOf(o Object) (key entryKey, v entryValue, ok bool) {
	switch o := o.(type) {
	case Neighbour:
		return entryKey{kind: kindNeighbour, dev: o.Interface, addr: bare(o.Addr)}, entryValue{mac: o.MAC}, true
	case Proxy:
		return entryKey{kind: kindProxy, dev: o.Interface, addr: bare(o.Addr)}, entryValue{}, true
	case FDB:
		return entryKey{kind: kindFDB, dev: o.Interface, mac: o.MAC}, entryValue{dst: bare(o.Dst)}, true
	}
	return entryKey{}, entryValue{}, false
}

// object puts one together.
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

// begin starts a reading of everything.
func (s *entryStore) begin() {
	for _, slot := range s.slots {
		slot.present, slot.lost, slot.foreign = false, false, false
	}
}

// read takes in one entry of the kernel.
func (s *entryStore) read(key entryKey, index int, v entryValue) {
	slot := s.slot(key)
	slot.present, slot.index, slot.have, slot.heard = true, index, v, 0
}

// end concludes a reading.
func (s *entryStore) end() {
	for _, slot := range s.slots {
		if !slot.present || !slot.wanted || slot.have != slot.want {
			s.touch(slot)
		}
	}
}

// hear takes in the event of a number: what somebody else did to an entry. ours means that it is
// ours by its protocol or device.
func (s *entryStore) hear(key entryKey, index int, v entryValue, number uint64, ours, gone bool) {
	slot := s.slots[key]
	switch {
	case ours && !gone:
		lost := slot != nil && slot.wanted && v != slot.want &&
			(slot.lost || slot.present && slot.index == index && v != slot.have)
		s.read(key, index, v)
		slot = s.slots[key]
		slot.heard, slot.lost = number, lost
		s.touch(slot)
	case slot == nil:
	case slot.present && slot.index == index: // it went, or is another's now
		slot.present, slot.lost = false, true
		s.touch(slot)
	default: // there may be room now, or another's that was as good as ours is no more
		slot.foreign = slot.foreign && !gone
		s.touch(slot)
	}
}

// flush takes in what happened to interfaces. It reports whether there are entries on any whose
// name changed, or may have.
func (s *entryStore) flush(f *flush) (named bool) {
	for _, slot := range s.slots {
		if slot.present && f.takes(slot.index, slot.heard) {
			slot.present, slot.lost = false, false
			s.touch(slot)
		}
		if f.names[slot.key.dev] {
			s.touch(slot)
			named = named || slot.present
		}
	}
	return named
}

// forget takes entries of a kind on an interface for gone.
func (s *entryStore) forget(kind entryKind, index int) {
	for _, slot := range s.slots {
		if slot.key.kind == kind && slot.present && slot.index == index {
			slot.present = false
			s.touch(slot)
		}
	}
}

// entryChange is one change to an entry in the kernel.
type entryChange struct {
	slot *entrySlot
	// index of the interface, and value: of what is to be deleted if gone, otherwise of what is to
	// be there.
	index int
	value entryValue
	gone  bool
	// replace means that the kernel has one of ours.
	replace bool
}

// planEntries returns the changes that bring stale slots about, deletions and additions apart, each
// in order. An error means that the kernel cannot be talked to.
func (p *pass) planEntries() (deletions, additions []entryChange, err error) {
	s := p.k.entries
	stale := s.stale
	s.stale = nil
	for _, slot := range stale {
		slot.stale = false
		if !slot.wanted && !slot.present {
			delete(s.slots, slot.key)
			continue
		}
		index, ok := 0, slot.wanted
		if slot.wanted {
			index, ok = p.locate(slot)
		}
		if slot.present && !slot.wanted && slot.heard > 0 && p.spare() {
			s.touch(slot)
			continue
		}
		if slot.present && (!ok || slot.index != index) {
			deletions = append(deletions, entryChange{slot: slot, index: slot.index, value: slot.have, gone: true})
		}
		same := slot.present && slot.index == index
		if ok && !same && slot.key.kind == kindProxy {
			if ok, err = p.proxyMissing(index, slot.key.addr); err != nil {
				return nil, nil, err
			}
		}
		if ok && (!same || slot.have != slot.want) {
			additions = append(additions, entryChange{slot: slot, index: index, value: slot.want, replace: same})
		}
	}
	byKey := func(a, b entryChange) int { return a.slot.key.compare(b.slot.key) }
	slices.SortFunc(deletions, byKey)
	slices.SortFunc(additions, byKey)
	return deletions, additions, nil
}

// proxyMissing reports whether the host is not yet made to answer for the address on the interface.
// The kernel gives an entry that another made to whoever asks for it again: it is looked at first.
// As an entry has no value, another's is as good as ours.
func (p *pass) proxyMissing(index int, a netip.Addr) (bool, error) {
	if index < 0 { // of a device that is only planned
		return true, nil
	}
	entry, err := p.k.conn.Proxy(index, a)
	var refused *rtnl.Error
	switch {
	case err == nil:
		return entry.Protocol == p.k.cfg.Protocol, nil
	case errors.As(err, &refused): // not there, or the interface went
		return true, nil
	}
	return false, err
}

// locate finds the interface of a wanted entry, and reports if it cannot have any.
func (p *pass) locate(slot *entrySlot) (index int, ok bool) {
	op, err := "check entry", slot.key.validate(slot.want)
	if err == nil {
		var link rtnl.Link
		link, err = p.k.links.usable(slot.key.dev)
		op, index = "find interface", link.Index
		if err == nil && p.k.devices.has(link.Name) && foreignDevice(link, p.k.cfg.Protocol) {
			err = fmt.Errorf("%w: interface %s", ErrForeign, link.Name)
		}
	}
	if err != nil {
		p.fail(op, slot.key.object(slot.want), err)
		p.k.entries.touch(slot)
	}
	return index, err == nil
}

// encode appends the change to a batch.
func (c *entryChange) encode(b *rtnl.Batch, protocol uint8) {
	key := c.slot.key
	if key.kind == kindFDB {
		f := rtnl.Forward{Index: c.index, MAC: rtnl.MAC(key.mac), Dst: c.value.dst, State: rtnl.StatePermanent}
		if c.gone {
			b.DeleteForward(&f)
		} else {
			b.ReplaceForward(&f)
		}
		return
	}
	n := c.neighbour(protocol)
	switch {
	case c.gone:
		b.DeleteNeighbour(&n)
	case c.replace:
		b.ReplaceNeighbour(&n)
	default:
		b.AddNeighbour(&n)
	}
}

func (c *entryChange) neighbour(protocol uint8) rtnl.Neighbour {
	n := rtnl.Neighbour{Addr: c.slot.key.addr, Index: c.index, Protocol: protocol, Proxy: c.slot.key.kind == kindProxy}
	if !n.Proxy {
		n.MAC, n.State = rtnl.MAC(c.value.mac), rtnl.StatePermanent
	}
	return n
}

// entryDone records that a change of an entry was made.
func (p *pass) entryDone(c *entryChange) {
	key := c.slot.key
	if c.gone {
		if c.slot.index == c.index {
			c.slot.present = false
		}
		if c.slot.heard > 0 && !c.slot.wanted {
			p.k.stats.Swept++
			p.k.recordRepair(key, key.object(c.value))
		}
		return
	}
	if c.slot.lost {
		p.k.stats.Repaired++
		p.k.recordRepair(key, key.object(c.value))
	}
	c.slot.present, c.slot.index, c.slot.have, c.slot.heard = true, c.index, c.value, 0
	c.slot.lost, c.slot.foreign = false, false
}

// takeOver replaces an entry that the kernel learned, but none that another made, unless that is as
// good as ours.
func (p *pass) takeOver(c *entryChange) error {
	n := c.neighbour(p.k.cfg.Protocol)
	old, err := p.k.conn.Neighbour(n.Index, n.Addr)
	switch {
	case errors.Is(err, rtnl.ErrNotFound): // just expired
	case err != nil:
		return err
	case old.Static() && old.Protocol != n.Protocol && old.MAC == n.MAC:
		return errAsGood
	case old.Static() && old.Protocol != n.Protocol:
		c.slot.foreign = true
		return fmt.Errorf("%w: a neighbour entry", ErrForeign)
	}
	p.k.batch.Reset()
	p.k.batch.ReplaceNeighbour(&n)
	var refused error
	broken := p.k.through(p.k.conn).Do(&p.k.batch, func(_ int, err error) { refused = err })
	return errors.Join(broken, refused)
}

// errAsGood says that another made just what is wanted: that is left as it is.
var errAsGood = errors.New("as wanted, but of another")

// text returns the change as a command line of ip or bridge.
func (p *pass) entryText(c *entryChange) string {
	dev := cmp.Or(p.k.links.nameOf(c.index), c.slot.key.dev)
	six := ipFamily(c.slot.key.addr)
	switch c.slot.key.kind {
	case kindFDB:
		verb := "replace"
		if c.gone {
			verb = "del"
		}
		return fmt.Sprintf("bridge fdb %s %s dev %s dst %s self permanent", verb, c.slot.key.mac, dev, c.value.dst)
	case kindProxy:
		if c.gone {
			return fmt.Sprintf("ip %sneigh del proxy %s dev %s", six, c.slot.key.addr, dev)
		}
		return fmt.Sprintf("ip %sneigh add proxy %s dev %s protocol %d", six, c.slot.key.addr, dev, p.k.cfg.Protocol)
	default:
		if c.gone {
			return fmt.Sprintf("ip %sneigh del %s dev %s", six, c.slot.key.addr, dev)
		}
		return fmt.Sprintf("ip %sneigh replace %s lladdr %s dev %s nud permanent protocol %d",
			six, c.slot.key.addr, c.value.mac, dev, p.k.cfg.Protocol)
	}
}
