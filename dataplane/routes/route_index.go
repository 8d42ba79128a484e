// SPDX-License-Identifier: Apache-2.0

package routes

// anyInterface is the key of routeStore.byInterface for slots that a change of any interface can
// affect.
const anyInterface = ""

// index puts a slot into the list of the interface whose changes affect it. It is called after the
// slot's first claim changed or the slot got a stray. A slot with strays is in the list of
// anyInterface, until the first flush after it has lost the last stray.
func (s *routeStore) index(slot *routeSlot) {
	name := anyInterface
	if len(slot.strays) == 0 && len(slot.claims) > 0 {
		name = slot.claims[0].Interface
	}
	if slot.position > 0 && slot.listedFor == name {
		return
	}
	s.unindex(slot)
	list := append(s.byInterface[name], slot)
	s.byInterface[name] = list
	slot.listedFor, slot.position = name, len(list)
}

// unindex removes a slot from its list.
func (s *routeStore) unindex(slot *routeSlot) {
	if slot.position == 0 {
		return
	}
	list := s.byInterface[slot.listedFor]
	last := len(list) - 1
	list[slot.position-1], list[last].position = list[last], slot.position
	list[last], slot.position = nil, 0
	if last == 0 {
		delete(s.byInterface, slot.listedFor)
	} else {
		s.byInterface[slot.listedFor] = list[:last]
	}
}

// remove deletes a slot that has no claim and no observed route.
func (s *routeStore) remove(slot *routeSlot) {
	s.unindex(slot)
	delete(s.slots, slot.key)
}

// addStray records that the kernel has another route of ours in the slot.
func (s *routeStore) addStray(slot *routeSlot, o stray) {
	slot.strays = append(slot.strays, o)
	s.index(slot)
}
