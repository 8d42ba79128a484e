// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/policy"
)

// object identifies a set, a profile, or a policy or endpoint. One field is set.
type object struct {
	set     dataplane.IPSetID
	profile string
	key     policy.Key
}

// malformed records the objects of the desired state that cannot be encoded. The calls of an endpoint that refers to
// one end: a subscriber that kept its earlier state could allow packets that policy denies now.
type malformed struct {
	// errs are the reasons.
	errs map[object]error
	// types are the types of all sets.
	types map[dataplane.IPSetID]dataplane.IPSetType
}

func newMalformed() malformed {
	return malformed{map[object]error{}, map[dataplane.IPSetID]dataplane.IPSetType{}}
}

// update checks the objects of a batch, which the state has already.
func (m malformed) update(s *state.State, b dataplane.Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			m.types[e.ID] = e.Type
			m.check(object{set: e.ID}, e)
		case *dataplane.IPSetDelta:
			m.updateSet(s, e)
		case *dataplane.IPSetRemove:
			delete(m.types, e.ID)
			delete(m.errs, object{set: e.ID})
		case *dataplane.PolicyUpdate:
			m.check(object{key: e.Key}, e)
		case *dataplane.PolicyRemove:
			delete(m.errs, object{key: e.Key})
		case *dataplane.ProfileUpdate:
			m.check(object{profile: e.Name}, e)
		case *dataplane.ProfileRemove:
			delete(m.errs, object{profile: e.Name})
		case *dataplane.EndpointUpdate:
			m.check(object{key: e.Key}, e)
		case *dataplane.EndpointRemove:
			delete(m.errs, object{key: e.Key})
		}
	}
}

// updateSet checks the changes of a set, and all members of a malformed one, which no subscriber has.
func (m malformed) updateSet(s *state.State, e *dataplane.IPSetDelta) {
	id, whole := object{set: e.ID}, &dataplane.IPSetUpdate{ID: e.ID, Type: m.types[e.ID], Members: e.Added}
	if m.errs[id] == nil {
		m.check(id, whole, e)
		return
	}
	set, _ := s.Set(e.ID)
	whole.Members = set.Members
	m.check(id, whole)
}

// check records whether the events of an object can be sent.
func (m malformed) check(id object, events ...dataplane.Event) {
	err := parts.Write(dataplane.Batch{Events: events}, func(p parts.Part) error {
		_, err := proto.Marshal(&policysyncpb.SyncResponse{Events: p.Events}) // fails on text that is no UTF-8
		return err
	})
	if err != nil {
		m.errs[id] = fmt.Errorf("its policy cannot be sent: %w", err)
	} else {
		delete(m.errs, id)
	}
}

// any reports whether any object is malformed.
func (m malformed) any() bool { return len(m.errs) > 0 }

// of returns an error if the endpoint, or an object that it refers to, is malformed.
func (m malformed) of(s *state.State, key policy.Key) error {
	if !m.any() {
		return nil
	}
	c := closureOf(s, key, nil)
	for k := range c.Endpoints {
		if err := m.errs[object{key: k}]; err != nil {
			return err
		}
	}
	for _, k := range sortedKeys(c.Policies) {
		if err := m.errs[object{key: k}]; err != nil {
			return err
		}
	}
	for name := range c.Profiles {
		if err := m.errs[object{profile: name}]; err != nil {
			return err
		}
	}
	for id := range c.Sets {
		if err := m.errs[object{set: id}]; err != nil {
			return err
		}
	}
	return nil
}
