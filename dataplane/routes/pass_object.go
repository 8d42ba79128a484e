// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// planObjects returns the deletions and additions that the dirty slots need, each list in order. An
// error means that the connection to the kernel failed.
func planObjects[K objectKind[K, V], V comparable](
	p *pass, s *store[K, V],
) (deletions, additions []kernelChange[K, V], err error) {
	for _, o := range s.takeDirty() {
		index, ok := 0, o.desired
		if o.desired {
			index, ok = locate(p, s, o)
		}
		if o.state.present && !o.desired && (p.additionsOnly || o.state.reported > 0 && p.keepsUnwanted()) {
			s.markDirty(o)
			continue
		}
		if o.state.present && (!ok || o.state.index != index) {
			deletions = append(deletions, kernelChange[K, V]{
				slot: o, index: o.state.index, value: o.have, remove: true,
			})
		}
		if ok && o.state.ceded {
			p.result.fail("add "+o.key.object(o.want).kind(), o.key.object(o.want), ErrCeded)
			s.markDirty(o)
			continue
		}
		same := o.state.present && o.state.index == index && !o.state.uncertain
		if ok && !same {
			if ok, err = o.key.missing(p, index); err != nil {
				return nil, nil, err
			}
		}
		if ok && (!same || o.have != o.want) {
			additions = append(additions, kernelChange[K, V]{slot: o, index: index, value: o.want, replace: same})
		}
	}
	byKey := func(a, b kernelChange[K, V]) int { return a.slot.key.compare(b.slot.key) }
	slices.SortFunc(deletions, byKey)
	slices.SortFunc(additions, byKey)
	return deletions, additions, nil
}

// locate finds the interface of a desired object. If it cannot, it records the fault. An object on
// a port of one of Config.Bridges must not be in the kernel, which is no fault. An event about the
// port marks the object again.
func locate[K objectKind[K, V], V comparable](p *pass, s *store[K, V], o *slot[K, V]) (index int, ok bool) {
	object := o.key.object(o.want)
	op, err := "check "+object.kind(), o.key.validate(o.want)
	name, needed := o.key.device()
	if needed && err == nil {
		var link rtnl.Link
		link, err = p.view.links.usable(name)
		op, index = "find interface", link.Index
		if err == nil && p.view.stores.devices.has(name) && foreignDevice(link, p.cfg.Protocol) {
			err = fmt.Errorf("%w: interface %s", ErrForeign, name)
		}
	}
	if errors.Is(err, errPort) {
		return 0, false
	}
	switch {
	case err == nil:
		return index, true
	case needed && op == "find interface":
		p.noInterface(name, object, err)
	default:
		p.result.fail(op, object, err)
	}
	s.markDirty(o)
	return index, false
}

// sendObjects makes the changes. If one fails, the others are made nevertheless.
func sendObjects[K objectKind[K, V], V comparable](p *pass, s *store[K, V], changes []kernelChange[K, V]) error {
	p.view.sockets.batch.Reset()
	for i := range changes {
		c := &changes[i]
		if p.dry {
			p.result.print(c.slot.key.text(p, c))
		} else {
			c.slot.key.encode(c, &p.view.sockets.batch, p.cfg.Protocol)
		}
	}
	if p.dry {
		return nil
	}
	failed := map[int]error{}
	if err := p.view.sockets.send(func(i int, err error) { failed[i] = err }); err != nil {
		return err
	}
	for i := range changes {
		if err := concludeObject(p, s, &changes[i], failed[i]); err != nil {
			return err
		}
	}
	return nil
}

// concludeObject records that a change was made, or that the kernel refused it. It returns an error
// if the connection to the kernel failed.
func concludeObject[K objectKind[K, V], V comparable](
	p *pass, s *store[K, V], c *kernelChange[K, V], err error,
) error {
	key, op := c.slot.key, "delete "
	object := key.object(c.value)
	switch {
	case err == nil:
	case !c.remove:
		op, err = "add ", key.refused(p, c, err)
	case errors.Is(err, rtnl.ErrNotFound):
		err = nil
	}
	var refused *rtnl.Error
	switch {
	case errors.Is(err, errMadeByOther):
		c.slot.state.madeByOther = true
	case err == nil:
		objectDone(p, c)
	case !errors.Is(err, ErrForeign) && !errors.As(err, &refused):
		return err
	default:
		s.markDirty(c.slot)
		if name, needed := key.device(); needed {
			err = p.explain(err, name)
		}
		p.result.fail(op+object.kind(), object, err)
	}
	return nil
}

// objectDone records that a change was made.
func objectDone[K objectKind[K, V], V comparable](p *pass, c *kernelChange[K, V]) {
	o := c.slot
	switch {
	case !c.remove:
		if o.state.lost {
			p.stats.Repaired++
			p.recordRepair(o.key, o.key.object(c.value))
		}
		o.state.setInKernel(c.index)
		o.have = c.value
		return
	case o.state.index == c.index:
		o.state.present = false
	}
	if o.state.reported > 0 && !o.desired {
		p.stats.Swept++
		p.recordRepair(o.key, o.key.object(c.value))
	}
}

// errMadeByOther means that another process has made the same object. That object stays.
var errMadeByOther = errors.New("another process made the same object")
