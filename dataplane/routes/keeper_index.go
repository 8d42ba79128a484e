// SPDX-License-Identifier: Apache-2.0

package routes

// anyInterface is the key of routeStore.byInterface for slots that any interface may concern.
const anyInterface = ""

// index lists a slot after its first claim changed or it got a stray: with those of the interface of
// its claim, as long as that is the only one which concerns it. The next flush lists a slot anew
// that lost its last stray.
func (s *routeStore) index(slot *routeSlot) {
	name := anyInterface
	if len(slot.strays) == 0 && len(slot.claims) > 0 {
		name = slot.claims[0].Interface
	}
	if slot.place > 0 && slot.listedFor == name {
		return
	}
	s.unindex(slot)
	list := append(s.byInterface[name], slot)
	s.byInterface[name] = list
	slot.listedFor, slot.place = name, len(list)
}

// unindex takes a slot off its list.
func (s *routeStore) unindex(slot *routeSlot) {
	if slot.place == 0 {
		return
	}
	list := s.byInterface[slot.listedFor]
	last := len(list) - 1
	list[slot.place-1], list[last].place = list[last], slot.place
	list[last], slot.place = nil, 0
	if last == 0 {
		delete(s.byInterface, slot.listedFor)
	} else {
		s.byInterface[slot.listedFor] = list[:last]
	}
}

// remove forgets a slot of which nothing is wanted or known.
func (s *routeStore) remove(slot *routeSlot) {
	s.unindex(slot)
	delete(s.slots, slot.key)
}

// addStray records another route of ours.
func (s *routeStore) addStray(slot *routeSlot, o stray) {
	slot.strays = append(slot.strays, o)
	s.index(slot)
}
