// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever a message holds, reading it ends, and ends well.
func FuzzEvent(f *testing.F) {
	types := []uint16{
		unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_NEWROUTE, unix.RTM_NEWNEIGH, unix.RTM_NEWRULE,
		unix.RTM_NEWNETCONF,
	}
	vxlan := &Batch{}
	vxlan.buf = append(vxlan.buf, linkHeader(7)...)
	vxlan.attr(unix.IFLA_IFNAME, []byte("vxlan\x00"))
	vxlan.attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1})
	info := vxlan.beginNested(unix.IFLA_LINKINFO)
	vxlan.attr(unix.IFLA_INFO_KIND, []byte("vxlan\x00"))
	vxlan.endNested(info)
	for i, typ := range types {
		f.Add(typ, []byte{})
		f.Add(typ, make([]byte, 16))
		f.Add(typ, append(make([]byte, 12+4*(i%2)), 4, 0, 1, 0, 8, 0, 2, 0, 10, 0, 0, 1))
		f.Add(typ, vxlan.buf)
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		var e Event
		heard, err := e.parse(message{typ: typ, data: data})
		if heard && err == nil && e.Group == GroupAddresses && !e.Address.Prefix.IsValid() {
			t.Error("an address that is none")
		}
		if heard && err == nil && e.Group == GroupRoutes && !e.Route.Dst.IsValid() {
			t.Error("a route to nowhere")
		}
	})
}
