// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"unique"

	"github.com/wayleave/wayleave/policy"
)

// endpoint is a workload endpoint. The garbage collector drops what endpoints have in common once none has it any more.
type endpoint struct {
	common, node unique.Handle[string]
	own          string
}

// Where the value of a label is.
const (
	valueIsCommon = iota // behind the name
	valueIsOwn           // among what is the endpoint's own: it is short, and there may be as many as endpoints
	valueIsName          // it is the name of the endpoint, as in a stateful set
)

// short is how long a value may be that is not worth sharing.
const short = 8

func pack(w *policy.WorkloadEndpoint) *endpoint {
	var common, own writer
	own.text(w.Name)
	own.text(w.Interface)
	own.text(w.MAC)
	common.text(w.Namespace)
	common.text(string(w.AdminState))
	common.number(len(w.Labels))
	for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
		common.text(name)
		switch value := w.Labels[name]; {
		case value == w.Name:
			common.number(valueIsName)
		case len(value) <= short:
			common.number(valueIsOwn)
			own.text(value)
		default:
			common.number(valueIsCommon)
			common.text(value)
		}
	}
	common.number(len(w.Ports))
	for _, p := range w.Ports {
		common.text(p.Name)
		common.number(int(p.Protocol))
		common.number(int(p.Port))
	}
	common.number(len(w.Profiles))
	for _, name := range w.Profiles {
		common.text(name)
	}
	own.number(len(w.Addresses))
	for _, a := range w.Addresses {
		own.address(a)
	}
	own.number(len(w.IPNATs))
	for _, n := range w.IPNATs {
		own.address(n.InternalIP)
		own.address(n.ExternalIP)
	}
	own.number(len(w.AllowSpoofedSourcePrefixes))
	for _, p := range w.AllowSpoofedSourcePrefixes {
		own.prefix(p)
	}
	return &endpoint{common: unique.Make(string(common)), node: unique.Make(w.Node), own: string(own)}
}

// Key returns the identity of the endpoint.
func (e *endpoint) Key() policy.Key {
	common, own := reader(e.common.Value()), reader(e.own)
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: common.text(), Name: own.text()}
}

// Unpack returns the endpoint. What it has no entries of is nil.
func (e *endpoint) Unpack() policy.Resource {
	common, own := reader(e.common.Value()), reader(e.own)
	w := &policy.WorkloadEndpoint{Node: e.node.Value(), Name: own.text(), Interface: own.text(), MAC: own.text()}
	w.Namespace = common.text()
	w.AdminState = policy.AdminState(common.text())
	if n := common.number(); n > 0 {
		w.Labels = make(map[string]string, n)
		for range n {
			name := common.text()
			switch common.number() {
			case valueIsName:
				w.Labels[name] = w.Name
			case valueIsOwn:
				w.Labels[name] = own.text()
			default:
				w.Labels[name] = common.text()
			}
		}
	}
	w.Ports = list(&common, func() policy.EndpointPort {
		return policy.EndpointPort{Name: common.text(), Protocol: policy.Protocol(common.number()), Port: uint16(common.number())}
	})
	w.Profiles = list(&common, common.text)
	w.Addresses = list(&own, own.address)
	w.IPNATs = list(&own, func() policy.IPNAT { return policy.IPNAT{InternalIP: own.address(), ExternalIP: own.address()} })
	w.AllowSpoofedSourcePrefixes = list(&own, own.prefix)
	return w
}

// writer is a packed form that is being written: numbers, and texts with their lengths before them.
type writer []byte

func (w *writer) number(n int) { *w = binary.AppendUvarint(*w, uint64(n)) }

func (w *writer) text(s string) {
	w.number(len(s))
	*w = append(*w, s...)
}

// address writes an address with its family, which matters where IPv6 stands for IPv4, and its zone.
func (w *writer) address(a netip.Addr) {
	data, _ := a.MarshalBinary() // never fails
	w.text(string(data))
}

func (w *writer) prefix(p netip.Prefix) {
	data, _ := p.MarshalBinary() // never fails
	w.text(string(data))
}

// reader is what is left of a packed form. It reads what a writer has written, and nothing else.
type reader string

func (r *reader) number() int {
	n, shift := uint64(0), 0
	for i := range len(*r) {
		b := (*r)[i]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			*r = (*r)[i+1:]
			break
		}
		shift += 7
	}
	return int(n)
}

// text returns a part of the packed form, not a copy.
func (r *reader) text() string {
	n := r.number()
	s := (*r)[:n]
	*r = (*r)[n:]
	return string(s)
}

func (r *reader) address() netip.Addr {
	var a netip.Addr
	_ = a.UnmarshalBinary([]byte(r.text())) // as it was written
	return a
}

func (r *reader) prefix() netip.Prefix {
	var p netip.Prefix
	_ = p.UnmarshalBinary([]byte(r.text())) // as it was written
	return p
}

// list reads how many there are, and then each.
func list[T any](r *reader, read func() T) []T {
	n := r.number()
	if n == 0 {
		return nil
	}
	all := make([]T, n)
	for i := range all {
		all[i] = read()
	}
	return all
}
