// SPDX-License-Identifier: Apache-2.0

package routes

// stores have the desired and the observed state of the objects of all kinds.
type stores struct {
	protocol uint8
	routes   *routeStore
	entries  *entryStore
	rules    *ruleStore
	settings *settingStore
	devices  *deviceStore
	// tearingDown means that all objects of ours are removed, unknown routes included.
	tearingDown bool
}

func newStores(protocol uint8, tables []uint32) *stores {
	return &stores{
		protocol: protocol,
		routes:   newRouteStore(protocol, tables),
		entries:  newStore[entryKey, entryValue](),
		rules:    newStore[ruleKey, struct{}](),
		settings: newStore[string, Setting](),
		devices:  &deviceStore{desired: map[string]device{}},
	}
}

// change is one change to the desired state.
type change struct {
	object Object
	remove bool
}

// change changes the desired state at once.
func (s *stores) change(objects []Object, remove bool) {
	for _, o := range objects {
		s.apply(change{o, remove})
	}
}

// apply makes a change to the desired state.
func (s *stores) apply(c change) {
	switch o := c.object.(type) {
	case Route:
		s.routes.change(o, c.remove)
	case Rule:
		s.rules.change(o.key(s.protocol), struct{}{}, c.remove)
	case Setting:
		s.settings.change(o.Path, o, c.remove)
	case device:
		s.devices.change(o, c.remove)
	default:
		if key, v, ok := entryOf(o); ok {
			s.entries.change(key, v, c.remove)
		}
	}
}

// tearDown makes the next pass remove all objects of ours. own has the names of devices that are
// ours even if they have no alias.
func (s *stores) tearDown(own []string) { s.tearingDown, s.devices.own = true, own }

// copyTo copies the desired state to other stores.
func (s *stores) copyTo(other *stores) {
	for _, slot := range s.routes.slots {
		for _, r := range slot.claims {
			other.routes.change(r, false)
		}
	}
	s.entries.copyTo(other.entries)
	s.rules.copyTo(other.rules)
	s.settings.copyTo(other.settings)
	for _, d := range s.devices.desired {
		other.devices.change(d, false)
	}
}
