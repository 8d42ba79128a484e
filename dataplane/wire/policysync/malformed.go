// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/policy"
)

// object identifies a set, a profile, a policy or an endpoint. One field is set.
type object struct {
	set     dataplane.IPSetID
	profile string
	key     policy.Key
}

// desired is the desired state. It records which objects are malformed: they cannot be encoded, or
// a client could not decode them. If an endpoint refers to a malformed object, the server ends the
// calls of the endpoint's subscribers. Otherwise they would keep the earlier policy, which could
// allow packets that policy denies now.
type desired struct {
	*state.State
	// errs are the reasons why objects are malformed.
	errs map[object]error
	// types are the types of all sets.
	types  map[dataplane.IPSetID]dataplane.IPSetType
	logger *slog.Logger
}

func newDesired(logger *slog.Logger) *desired {
	return &desired{state.New(), map[object]error{}, map[dataplane.IPSetID]dataplane.IPSetType{}, logger}
}

// Apply applies a batch, and checks its objects. It reports whether the list of malformed objects
// has changed.
func (d *desired) Apply(b dataplane.Batch) (changed bool) {
	d.State.Apply(b)
	for _, e := range b.Events {
		id, sent, err := d.check(e)
		if !sent {
			continue
		}
		if before := d.errs[id]; (before != nil) != (err != nil) {
			changed = true
		}
		if err == nil {
			delete(d.errs, id)
			continue
		}
		if d.errs[id] == nil {
			d.logger.Warn("an object cannot be sent", "err", err)
		}
		d.errs[id] = fmt.Errorf("its policy cannot be sent: %w", err)
	}
	return changed
}

// check returns the object of an event, and an error if the object is malformed. The event has
// already been applied to the state. sent is false for events that no subscriber gets.
func (d *desired) check(e dataplane.Event) (id object, sent bool, err error) {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		d.types[e.ID] = e.Type
		return object{set: e.ID}, true, checkSet(e)
	case *dataplane.IPSetDelta:
		return object{set: e.ID}, true, d.checkDelta(e)
	case *dataplane.IPSetRemove:
		delete(d.types, e.ID)
		return object{set: e.ID}, true, nil
	case *dataplane.PolicyUpdate:
		return object{key: e.Key}, true, checkEvent(e)
	case *dataplane.PolicyRemove:
		return object{key: e.Key}, true, nil
	case *dataplane.ProfileUpdate:
		return object{profile: e.Name}, true, checkEvent(e)
	case *dataplane.ProfileRemove:
		return object{profile: e.Name}, true, nil
	case *dataplane.EndpointUpdate:
		return object{key: e.Key}, true, checkEvent(e)
	case *dataplane.EndpointRemove:
		return object{key: e.Key}, true, nil
	}
	return object{}, false, nil
}

// checkDelta checks a set that changes. It checks only the changed members. But if the set was
// malformed before the change, it checks all members.
func (d *desired) checkDelta(e *dataplane.IPSetDelta) error {
	typ := d.types[e.ID]
	if d.errs[object{set: e.ID}] != nil {
		set, _ := d.Set(e.ID)
		return checkSet(&dataplane.IPSetUpdate{ID: e.ID, Type: typ, Members: set.Members})
	}
	if err := codec.CheckMembers(e.ID, typ, e.Added); err != nil {
		return err
	}
	return codec.CheckMembers(e.ID, typ, e.Removed)
}

// checkSet checks a set. It does not encode the members, because a set may have hundreds of
// thousands.
func checkSet(e *dataplane.IPSetUpdate) error {
	if err := checkEvent(&dataplane.IPSetUpdate{ID: e.ID, Type: e.Type}); err != nil {
		return err
	}
	return codec.CheckMembers(e.ID, e.Type, e.Members)
}

// checkEvent checks that an event can be sent, and that a client can decode it.
func checkEvent(e dataplane.Event) error {
	message, err := codec.Encode(e)
	if err != nil {
		return err
	}
	if _, err := proto.Marshal(message); err != nil { // text that is no UTF-8
		return err
	}
	_, err = codec.Decode(message)
	return err
}

// Policy returns a policy as it is sent to subscribers, or nil if it does not exist. A staged
// policy is sent without its rules if it is malformed, or refers to a malformed set. A staged
// policy never decides about packets, so a mistake in it must not put its endpoints at fault.
func (d *desired) Policy(key policy.Key) *dataplane.Policy {
	p := d.State.Policy(key)
	if p == nil || !p.Staged || len(d.errs) == 0 {
		return p
	}
	malformed := d.errs[object{key: key}] != nil
	for _, rules := range [][]dataplane.Rule{p.Ingress, p.Egress} {
		for id := range setsOf(rules) {
			malformed = malformed || d.errs[object{set: id}] != nil
		}
	}
	if malformed {
		return &dataplane.Policy{Tier: codec.Text(p.Tier), Staged: true}
	}
	return p
}

// malformed returns an error if the endpoint, or an object that it refers to, is malformed.
func (d *desired) malformed(key policy.Key) error {
	e := d.Endpoint(key)
	if e == nil || len(d.errs) == 0 {
		return nil
	}
	if err := d.errs[object{key: key}]; err != nil {
		return err
	}
	for _, tiers := range [][]dataplane.TierPolicies{e.Ingress, e.Egress} {
		for i := range tiers {
			for _, k := range tiers[i].Policies {
				p := d.State.Policy(k)
				if p == nil || p.Staged {
					continue
				}
				if err := d.malformedRules(object{key: k}, p.Ingress, p.Egress); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range e.Profiles {
		if p := d.Profile(name); p != nil {
			if err := d.malformedRules(object{profile: name}, p.Ingress, p.Egress); err != nil {
				return err
			}
		}
	}
	return nil
}

// malformedRules returns an error if an object with rules, or a set that they name, is malformed.
func (d *desired) malformedRules(id object, lists ...[]dataplane.Rule) error {
	if err := d.errs[id]; err != nil {
		return err
	}
	for _, rules := range lists {
		for set := range setsOf(rules) {
			if err := d.errs[object{set: set}]; err != nil {
				return err
			}
		}
	}
	return nil
}
