// SPDX-License-Identifier: Apache-2.0

package routes

// shelf has slots that are looked at together when something happens to an interface: of all routes
// only those that it may concern.
type shelf struct {
	slots []*routeSlot
}

// oddShelf is the name of the shelf with slots that any interface may concern.
const oddShelf = ""

// file puts a slot where it belongs, after its first claim changed or it got a stray: with those of
// the interface of its claim, as long as that is the only one which concerns it. One that lost its
// last stray is filed by the next flush.
func (s *routeStore) file(slot *routeSlot) {
	name := oddShelf
	if len(slot.strays) == 0 && len(slot.claims) > 0 {
		name = slot.claims[0].Interface
	}
	to := s.shelves[name]
	if to == nil {
		to = &shelf{}
		s.shelves[name] = to
	}
	if to == slot.shelf {
		return
	}
	s.unfile(slot)
	slot.shelf, slot.shelved, slot.place = to, name, len(to.slots)
	to.slots = append(to.slots, slot)
}

// unfile takes a slot off its shelf. A shelf with nothing on it goes.
func (s *routeStore) unfile(slot *routeSlot) {
	from := slot.shelf
	if from == nil {
		return
	}
	last := len(from.slots) - 1
	moved := from.slots[last]
	from.slots[slot.place], moved.place = moved, slot.place
	from.slots[last] = nil
	from.slots = from.slots[:last]
	if last == 0 {
		delete(s.shelves, slot.shelved)
	}
	slot.shelf = nil
}

// remove forgets a slot of which nothing is wanted or known.
func (s *routeStore) remove(slot *routeSlot) {
	s.unfile(slot)
	delete(s.slots, slot.key)
}

// addStray notes another route of ours.
func (s *routeStore) addStray(slot *routeSlot, o stray) {
	slot.strays = append(slot.strays, o)
	s.file(slot)
}
