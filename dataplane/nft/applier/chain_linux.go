// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func (e *encoder) chain(c *ruleset.Chain) {
	object := nfnl.Object{Kind: "chain", Name: c.Name}
	e.batch.Message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, e.family, object)
	e.chainAttrs(&e.batch.Attrs, object, c)
}

// plainChain adds a chain of which nothing but the name is known.
func (e *encoder) plainChain(name string) {
	e.batch.Message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, e.family, nfnl.Object{Kind: "chain", Name: name})
	e.batch.String(unix.NFTA_CHAIN_TABLE, e.table)
	e.batch.String(unix.NFTA_CHAIN_NAME, name)
}

// chainAttrs appends what there is to say of a chain.
func (e *encoder) chainAttrs(a *nfnl.Attrs, object nfnl.Object, c *ruleset.Chain) {
	a.String(unix.NFTA_CHAIN_TABLE, e.table)
	a.String(unix.NFTA_CHAIN_NAME, c.Name)
	h := c.Hook
	if h == nil {
		return
	}
	number, ok := h.Point.Number(e.kind)
	policy := e.verdictCode(object, h.Policy)
	if !ok || h.Policy.Kind != ruleset.Accept && h.Policy.Kind != ruleset.Drop {
		e.fail(object, "no such hook or policy: %v, %v", h.Point, h.Policy)
	}
	hook := a.Begin(unix.NFTA_CHAIN_HOOK)
	a.Uint32(unix.NFTA_HOOK_HOOKNUM, number)
	a.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(int32(h.Priority)))
	switch len(h.Devices) {
	case 0:
	case 1:
		a.String(nftaHookDev, h.Devices[0])
	default:
		devices := a.Begin(nftaHookDevs)
		for _, d := range h.Devices {
			a.String(nftaDevName, d)
		}
		a.End(devices)
	}
	a.End(hook)
	a.Uint32(unix.NFTA_CHAIN_POLICY, uint32(policy))
	a.String(unix.NFTA_CHAIN_TYPE, h.Type.String())
}

// changePolicy changes nothing of a base chain but its policy.
func (e *encoder) changePolicy(c *ruleset.Chain) {
	object := nfnl.Object{Kind: "chain", Name: c.Name}
	e.batch.Message(unix.NFT_MSG_NEWCHAIN, 0, e.family, object)
	e.batch.String(unix.NFTA_CHAIN_TABLE, e.table)
	e.batch.String(unix.NFTA_CHAIN_NAME, c.Name)
	e.batch.Uint32(unix.NFTA_CHAIN_POLICY, uint32(e.verdictCode(object, c.Hook.Policy)))
}

// hookOf returns the hook of a chain as the kernel lists it, or nil if it is no base chain. It
// returns false if the hook has an attribute that we never set. Devices are in the order of want if
// they are the same.
func hookOf(family ruleset.Family, chain []byte, want *ruleset.Hook) (*ruleset.Hook, bool) {
	const baseChain = 1
	if nfnl.Number32(nfnl.FindAttr(chain, nftaChainFlags))&^baseChain != 0 {
		return nil, false
	}
	nest := nfnl.FindAttr(chain, unix.NFTA_CHAIN_HOOK)
	if nest == nil {
		return nil, true
	}
	h := &ruleset.Hook{
		Priority: int(int32(nfnl.Number32(nfnl.FindAttr(nest, unix.NFTA_HOOK_PRIORITY)))),
		Policy:   ruleset.Verdict{Kind: verdictOf(int32(nfnl.Number32(nfnl.FindAttr(chain, unix.NFTA_CHAIN_POLICY))))},
	}
	name := nfnl.FindAttr(chain, unix.NFTA_CHAIN_TYPE)
	for h.Type = ruleset.HookFilter; !nfnl.IsText(name, h.Type.String()); h.Type++ {
		if h.Type == ruleset.HookNAT {
			return nil, false
		}
	}
	number := nfnl.Number32(nfnl.FindAttr(nest, unix.NFTA_HOOK_HOOKNUM))
	for h.Point = ruleset.Prerouting; ; h.Point++ {
		if n, ok := h.Point.Number(family); ok && n == number {
			break
		}
		if h.Point == ruleset.Egress {
			return nil, false
		}
	}
	var ok bool
	h.Devices, ok = devices(nest)
	if want != nil && slices.Equal(h.Devices, slices.Sorted(slices.Values(want.Devices))) {
		h.Devices = want.Devices
	}
	return h, ok
}

// devices returns the names of a hook's devices, sorted; false if one is no plain name. The kernel
// lists a single device in the list, and on its own besides.
func devices(hook []byte) ([]string, bool) {
	var all []string
	list := nfnl.FindAttr(hook, nftaHookDevs)
	if one := nfnl.FindAttr(hook, nftaHookDev); one != nil && list == nil {
		all = append(all, nfnl.Text(one))
	}
	for {
		typ, value, rest, ok := nfnl.NextAttr(list)
		if !ok {
			slices.Sort(all)
			return all, true
		}
		if typ != nftaDevName {
			return nil, false
		}
		all = append(all, nfnl.Text(value))
		list = rest
	}
}
