// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func chainObject(name string) nfnl.Object { return nfnl.Object{Kind: "chain", Name: name} }

// AddChain adds a chain without its rules.
func (e *Encoder) AddChain(c *ruleset.Chain) {
	object := chainObject(c.Name)
	e.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, object, unix.NFTA_CHAIN_NAME)
	h := c.Hook
	if h == nil {
		return
	}
	policy := e.verdictCode(object, h.Policy)
	if h.Policy.Kind != ruleset.Accept && h.Policy.Kind != ruleset.Drop {
		e.fail(object, "unknown policy %v", h.Policy)
	}
	hook := e.batch.Begin(unix.NFTA_CHAIN_HOOK)
	e.batch.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(h.Point))
	e.batch.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(int32(h.Priority)))
	e.batch.End(hook)
	e.batch.Uint32(unix.NFTA_CHAIN_POLICY, uint32(policy))
	e.batch.String(unix.NFTA_CHAIN_TYPE, h.Type.String())
}

// ChangePolicy changes only the policy of a base chain.
func (e *Encoder) ChangePolicy(c *ruleset.Chain) {
	object := chainObject(c.Name)
	e.message(unix.NFT_MSG_NEWCHAIN, 0, object, unix.NFTA_CHAIN_NAME)
	e.batch.Uint32(unix.NFTA_CHAIN_POLICY, uint32(e.verdictCode(object, c.Hook.Policy)))
}

// DeleteChain deletes a chain. The chain must not have rules any more.
func (e *Encoder) DeleteChain(name string) {
	e.message(unix.NFT_MSG_DELCHAIN, 0, chainObject(name), unix.NFTA_CHAIN_NAME)
}

// FlushChain deletes all rules of a chain.
func (e *Encoder) FlushChain(name string) {
	e.message(unix.NFT_MSG_DELRULE, 0, chainObject(name), AttrWithin)
}
