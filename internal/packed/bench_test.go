// SPDX-License-Identifier: Apache-2.0

package packed_test

import (
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// BenchmarkEndpoint measures Pack, Unpack and Key of an endpoint.
func BenchmarkEndpoint(b *testing.B) {
	w := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "frontend-5d4f8c7b9d-x2b4c", Node: "node-17", Interface: "cali0123456789a",
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1})}, Profiles: []string{"kns.shop"},
		Labels: map[string]string{"app": "frontend", "pod-template-hash": "5d4f8c7b9d", "tier": "web"},
	}
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			packed.Pack(w)
		}
	})
	o := packed.Pack(w)
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o.Unpack()
		}
	})
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = o.Key()
		}
	})
}
