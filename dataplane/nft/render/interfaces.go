// SPDX-License-Identifier: Apache-2.0

package render

import (
	"iter"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// interfaces has the interfaces of workload endpoints, and renders them to elements of sets and maps.
type interfaces struct {
	prefix string
	table  *table
	byName map[string]*iface
	// masters has the master of each interface that is a port.
	masters map[string]Master
	// unprefixed counts the interfaces whose names do not begin with the prefix.
	unprefixed int
	local      *classify.LocalAddresses

	dirty *dirtySet[string]
	// dirtySubjects is marked for the endpoints of an interface that changes.
	dirtySubjects *dirtySet[*subject]
}

func newInterfaces(prefix string, t *table, dirtySubjects *dirtySet[*subject]) *interfaces {
	return &interfaces{
		prefix: prefix, table: t, byName: map[string]*iface{}, masters: map[string]Master{},
		local: classify.NewLocalAddresses(), dirty: newDirtySet[string](), dirtySubjects: dirtySubjects,
	}
}

// iface is an interface that workload endpoints claim.
type iface struct {
	claims   map[*subject]struct{}
	elements []elementRef
}

// claim records that a workload endpoint has an interface. The endpoint and the others of that interface
// are rendered again.
func (i *interfaces) claim(s *subject) {
	name := s.workload.Interface
	x := i.byName[name]
	if x == nil {
		x = &iface{claims: map[*subject]struct{}{}}
		i.byName[name] = x
	}
	x.claims[s] = struct{}{}
	i.local.Add(s.workload, 1)
	if len(x.claims) == 1 && !strings.HasPrefix(name, i.prefix) {
		i.unprefixed++
	}
	i.markDirty(name)
}

// unclaim records that a workload endpoint does not have its interface any more.
func (i *interfaces) unclaim(s *subject) {
	name := s.workload.Interface
	delete(i.byName[name].claims, s)
	i.local.Add(s.workload, -1)
	if len(i.byName[name].claims) == 0 && !strings.HasPrefix(name, i.prefix) {
		i.unprefixed--
	}
	i.markDirty(name)
}

// otherClaim returns the first other endpoint of the same interface.
func (i *interfaces) otherClaim(s *subject) *subject {
	return first(i.byName[s.workload.Interface].claims, s)
}

// markDirty marks an interface and its endpoints.
func (i *interfaces) markDirty(name string) {
	for o := range i.byName[name].claims {
		i.dirtySubjects.mark(o)
	}
	i.dirty.mark(name)
}

// setMaster sets the master of one interface.
func (i *interfaces) setMaster(name string, m Master) {
	if i.masters[name] == m {
		return
	}
	if m == (Master{}) {
		delete(i.masters, name)
	} else {
		i.masters[name] = m
	}
	if i.byName[name] != nil {
		i.markDirty(name)
	}
}

// setMasters sets the masters of all interfaces.
func (i *interfaces) setMasters(known map[string]Interface) {
	for name := range i.masters {
		if known[name].Master == (Master{}) {
			i.setMaster(name, Master{})
		}
	}
	for name, one := range known {
		i.setMaster(name, one.Master)
	}
}

// render adds the elements of one interface to the sets and maps, and removes its old ones.
func (i *interfaces) render(name string) {
	x := i.byName[name]
	if x == nil {
		return
	}
	var now []elementRef
	put := func(set string, e ruleset.Element) {
		i.table.elements[set].Put(e)
		now = append(now, elementRef{set, sets.ElementKey(e)})
	}
	if len(x.claims) > 0 && ruleset.ValidIfname(name) {
		for s := range x.claims {
			i.putElements(name, s, put)
			break // with several claims no endpoint is up, so each gives the same elements
		}
	}
	x.elements = i.table.replaceElements(x.elements, now)
	if len(x.claims) == 0 {
		delete(i.byName, name)
	}
}

// putElements puts the elements of one endpoint's interface.
func (i *interfaces) putElements(name string, s *subject, put func(set string, e ruleset.Element)) {
	put(setEndpoints, sets.Element(nil, ruleset.Ifname(name)))
	if !s.ok {
		put(mapTo, sets.Element(&ruleset.Verdict{Kind: ruleset.Drop}, ruleset.Ifname(name)))
		return
	}
	put(setUp, sets.Element(nil, ruleset.Ifname(name)))
	// Jump, not goto: to a packet on the previous generation these chains are empty. It must return
	// to the rule that drops it.
	to, from := build.Jump(sets.KeyName("to", s.key)), build.Jump(sets.KeyName("from", s.key))
	put(mapTo, sets.Element(&to, ruleset.Ifname(name)))
	put(mapFrom, sets.Element(&from, ruleset.Ifname(name)))
	for _, a := range s.workload.Addresses {
		put(sourceSet(sets.FamilyOf(a)), sets.Element(nil, ruleset.Ifname(name), ruleset.Addr(a)))
	}
}

// names returns the interfaces that endpoints have, in no particular order.
func (i *interfaces) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range i.byName {
			if i.has(name) && !yield(name) {
				return
			}
		}
	}
}

// has reports whether an endpoint has the interface.
func (i *interfaces) has(name string) bool {
	x := i.byName[name]
	return x != nil && len(x.claims) > 0
}
