// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// parse does not panic for any message.
func FuzzEvent(f *testing.F) {
	types := []uint16{
		unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_NEWROUTE, unix.RTM_NEWNEIGH, unix.RTM_NEWRULE,
		unix.RTM_NEWNETCONF,
	}
	vxlan := &Batch{}
	vxlan.Message(unix.RTM_NEWLINK, 0, linkHeader(7)...)
	vxlan.String(unix.IFLA_IFNAME, "vxlan")
	vxlan.Bytes(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1})
	info := vxlan.Begin(unix.IFLA_LINKINFO)
	vxlan.String(unix.IFLA_INFO_KIND, "vxlan")
	vxlan.End(info)
	for i, typ := range types {
		f.Add(typ, []byte{})
		f.Add(typ, make([]byte, 16))
		f.Add(typ, append(make([]byte, 12+4*(i%2)), 4, 0, 1, 0, 8, 0, 2, 0, 10, 0, 0, 1))
		f.Add(typ, vxlan.Encoded()[netlink.HeaderLen:])
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		var e Event
		known, err := e.parse(netlink.Message{Type: typ, Data: data})
		if known && err == nil && e.Group == GroupAddresses && !e.Address.Prefix.IsValid() {
			t.Error("an invalid address")
		}
		if known && err == nil && e.Group == GroupRoutes && !e.Route.Dst.IsValid() {
			t.Error("a route without a destination")
		}
	})
}
