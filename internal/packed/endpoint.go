// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"unique"

	"github.com/wayleave/wayleave/policy"
)

// endpoint is a workload endpoint. The garbage collector removes common data that no endpoint uses
// any more.
type endpoint struct {
	common, node unique.Handle[string]
	own          string
}

// Where the value of a label is stored.
const (
	valueIsCommon = iota // in the common data, after the name
	valueIsOwn           // in the own data, because each endpoint may have another short value
	valueIsName          // it is equal to the name of the endpoint, as in a StatefulSet
)

// short is the maximum length of a value that is stored in the own data.
const short = 8

func pack(w *policy.WorkloadEndpoint) *endpoint {
	var room [2][256]byte // large enough for most endpoints, and not on the heap
	common, own := room[0][:0], room[1][:0]
	own = appendText(own, w.Name)
	own = appendText(own, w.Interface)
	own = appendText(own, w.MAC)
	common = appendText(common, w.Namespace)
	common = appendText(common, string(w.AdminState))
	common, own = appendLabels(common, own, w)
	common = appendNumber(common, len(w.Ports))
	for _, p := range w.Ports {
		common = appendText(common, p.Name)
		common = appendNumber(common, int(p.Protocol))
		common = appendNumber(common, int(p.Port))
	}
	common = appendNumber(common, len(w.Profiles))
	for _, name := range w.Profiles {
		common = appendText(common, name)
	}
	own = appendNumber(own, len(w.Addresses))
	for _, a := range w.Addresses {
		own = appendAddress(own, a)
	}
	own = appendNumber(own, len(w.IPNATs))
	for _, n := range w.IPNATs {
		own = appendAddress(own, n.InternalIP)
		own = appendAddress(own, n.ExternalIP)
	}
	own = appendNumber(own, len(w.AllowSpoofedSourcePrefixes))
	for _, p := range w.AllowSpoofedSourcePrefixes {
		own = appendPrefix(own, p)
	}
	return &endpoint{common: unique.Make(string(common)), node: unique.Make(w.Node), own: string(own)}
}

// appendLabels packs the labels, sorted by name.
func appendLabels(common, own []byte, w *policy.WorkloadEndpoint) (longerCommon, longerOwn []byte) {
	var room [16]string
	names := room[:0]
	for name := range w.Labels {
		names = append(names, name)
	}
	slices.Sort(names)
	common = appendNumber(common, len(names))
	for _, name := range names {
		common = appendText(common, name)
		switch value := w.Labels[name]; {
		case value == w.Name:
			common = appendNumber(common, valueIsName)
		case len(value) <= short:
			common = appendNumber(common, valueIsOwn)
			own = appendText(own, value)
		default:
			common = appendNumber(common, valueIsCommon)
			common = appendText(common, value)
		}
	}
	return common, own
}

func appendNumber(buf []byte, n int) []byte { return binary.AppendUvarint(buf, uint64(n)) }

// appendText packs a text after its length.
func appendText[T string | []byte](buf []byte, s T) []byte {
	return append(appendNumber(buf, len(s)), s...)
}

// appendAddress packs an address with its family, to distinguish IPv4 from its IPv6 form, and its
// zone.
func appendAddress(buf []byte, a netip.Addr) []byte {
	var room [32]byte
	data, _ := a.AppendBinary(room[:0]) // never fails
	return appendText(buf, data)
}

func appendPrefix(buf []byte, p netip.Prefix) []byte {
	var room [32]byte
	data, _ := p.AppendBinary(room[:0]) // never fails
	return appendText(buf, data)
}

// Key returns the identity of the endpoint.
func (e *endpoint) Key() policy.Key {
	common, own := reader(e.common.Value()), reader(e.own)
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: common.text(), Name: own.text()}
}

// Unpack returns the endpoint. Empty fields are nil.
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
		return policy.EndpointPort{
			Name: common.text(), Protocol: policy.Protocol(common.number()), Port: uint16(common.number()),
		}
	})
	w.Profiles = list(&common, common.text)
	w.Addresses = list(&own, own.address)
	w.IPNATs = list(&own, func() policy.IPNAT {
		return policy.IPNAT{InternalIP: own.address(), ExternalIP: own.address()}
	})
	w.AllowSpoofedSourcePrefixes = list(&own, own.prefix)
	return w
}

// reader is the unread part of a packed form. It reads only the result of pack.
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

// text returns a part of the packed form without a copy.
func (r *reader) text() string {
	n := r.number()
	s := (*r)[:n]
	*r = (*r)[n:]
	return string(s)
}

func (r *reader) address() netip.Addr {
	var a netip.Addr
	_ = a.UnmarshalBinary([]byte(r.text())) // cannot fail for the result of pack
	return a
}

func (r *reader) prefix() netip.Prefix {
	var p netip.Prefix
	_ = p.UnmarshalBinary([]byte(r.text())) // cannot fail for the result of pack
	return p
}

// list reads a length, and then the elements.
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
