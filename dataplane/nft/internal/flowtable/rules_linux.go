// SPDX-License-Identifier: Apache-2.0

package flowtable

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	flowtableName = "fast"
	// maxDevices is how many devices one message may have: fewer than NFT_NETDEVICE_MAX of the kernel.
	maxDevices = 255
	// priority is after the forward chains of others (NF_IP_PRI_FILTER is 0): a packet that one of them drops puts
	// no connection on the fast path.
	priority = 10_000
)

// The ids of sets within a transaction.
const (
	setUplinks uint32 = iota + 1
	setOwn4
	setOwn6
)

// family has what differs between IPv4 and IPv6: the set of the workloads' addresses, and where the header has those
// of the packet.
type family struct {
	number               byte
	address              nftables.SetDatatype
	own                  string
	id                   uint32
	saddr, daddr, length uint32
}

func families() []family {
	return []family{
		{unix.NFPROTO_IPV4, nftables.TypeIPAddr, "own4", setOwn4, 12, 16, 4},
		{unix.NFPROTO_IPV6, nftables.TypeIP6Addr, "own6", setOwn6, 8, 24, 16},
	}
}

// addRules adds the sets and the chain. A packet of an established connection comes from a workload's own address or
// an uplink, and goes to a workload's own address or an uplink, but not from an uplink to one. Both directions of a
// connection fulfill this, or none.
func (t *Table) addRules(own []Address) error {
	uplinks := &nftables.Set{
		Table: t.table, Name: "uplinks", ID: setUplinks, KeyType: nftables.TypeIFName,
		KeyByteOrder: binaryutil.NativeEndian, // nft needs that to list the names
	}
	var names []nftables.SetElement
	for _, name := range t.uplinks {
		names = append(names, nftables.SetElement{Key: ifname(name)})
	}
	if err := t.conn.AddSet(uplinks, names); err != nil {
		return err
	}
	accept := nftables.ChainPolicyAccept
	chain := t.conn.AddChain(&nftables.Chain{
		Table: t.table, Name: "forward", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
		Priority: nftables.ChainPriorityRef(priority), Policy: &accept,
	})
	for _, f := range families() {
		key, err := nftables.ConcatSetType(nftables.TypeIFName, f.address)
		if err != nil {
			return err
		}
		set := &nftables.Set{Table: t.table, Name: f.own, ID: f.id, KeyType: key, Concatenation: true}
		if err := t.conn.AddSet(set, f.elements(own)); err != nil {
			return err
		}
		from, to := f.inOwn(expr.MetaKeyIIFNAME, f.saddr), f.inOwn(expr.MetaKeyOIFNAME, f.daddr)
		for _, ends := range [][]expr.Any{
			slices.Concat(from, isUplink(expr.MetaKeyOIFNAME)),
			slices.Concat(isUplink(expr.MetaKeyIIFNAME), to),
			slices.Concat(from, to),
		} {
			t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: chain, Exprs: slices.Concat(
				f.established(), ends, []expr.Any{&expr.FlowOffload{Name: flowtableName}},
			)})
		}
	}
	return nil
}

// established matches packets of the family that belong to established connections.
func (f family) established() []expr.Any {
	bit := make([]byte, 4)
	binary.NativeEndian.PutUint32(bit, expr.CtStateBitESTABLISHED)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{f.number}},
		&expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: bit},
	}
}

// inOwn matches an interface, together with the address at offset in the IP header. The name fills the first
// register, so the address comes in the next one.
func (f family) inOwn(name expr.MetaKey, offset uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: name, Register: unix.NFT_REG_1},
		&expr.Payload{
			DestRegister: unix.NFT_REG_2, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.length,
		},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, SetID: f.id, SetName: f.own},
	}
}

func isUplink(name expr.MetaKey) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: name, Register: unix.NFT_REG_1},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, SetID: setUplinks, SetName: "uplinks"},
	}
}

// elements returns the addresses of the family, in order, each once.
func (f family) elements(own []Address) (out []nftables.SetElement) {
	all := slices.SortedFunc(slices.Values(own), func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), a.Addr.Compare(b.Addr))
	})
	for _, a := range slices.Compact(all) {
		if a.Addr.Is4() == (f.number == unix.NFPROTO_IPV4) {
			out = append(out, nftables.SetElement{Key: append(ifname(a.Interface), a.Addr.AsSlice()...)})
		}
	}
	return out
}

// ifname returns an interface's name as the kernel compares it: with zeros up to IFNAMSIZ.
func ifname(name string) []byte {
	out := make([]byte, unix.IFNAMSIZ)
	copy(out, name)
	return out
}
