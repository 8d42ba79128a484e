// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func (e *encoder) chain(c *ruleset.Chain) {
	object := nfnl.Object{Kind: "chain", Name: c.Name}
	e.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, object, unix.NFTA_CHAIN_NAME)
	h := c.Hook
	if h == nil {
		return
	}
	policy := e.verdictCode(object, h.Policy)
	if h.Policy.Kind != ruleset.Accept && h.Policy.Kind != ruleset.Drop {
		e.fail(object, "no such policy: %v", h.Policy)
	}
	hook := e.batch.Begin(unix.NFTA_CHAIN_HOOK)
	e.batch.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(h.Point))
	e.batch.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(int32(h.Priority)))
	e.batch.End(hook)
	e.batch.Uint32(unix.NFTA_CHAIN_POLICY, uint32(policy))
	e.batch.String(unix.NFTA_CHAIN_TYPE, h.Type.String())
}

// changePolicy changes nothing of a base chain but its policy.
func (e *encoder) changePolicy(c *ruleset.Chain) {
	object := nfnl.Object{Kind: "chain", Name: c.Name}
	e.message(unix.NFT_MSG_NEWCHAIN, 0, object, unix.NFTA_CHAIN_NAME)
	e.batch.Uint32(unix.NFTA_CHAIN_POLICY, uint32(e.verdictCode(object, c.Hook.Policy)))
}

// hookOf returns the hook of a chain as the kernel lists it, or nil if it is no base chain. It
// returns false if the hook has an attribute that we never set.
func hookOf(chain []byte) (*ruleset.Hook, bool) {
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
	if number > uint32(ruleset.Postrouting) {
		return nil, false
	}
	h.Point = ruleset.HookPoint(number)
	return h, true
}
