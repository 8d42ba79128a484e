// SPDX-License-Identifier: Apache-2.0

package render

import "github.com/wayleave/wayleave/dataplane/nft/internal/match"

// stage says for which place on a packet's way a list of rules is rendered.
type stage uint8

const (
	// stageWorkload is policy of workloads. An Allow records the decision in the packet and
	// returns.
	stageWorkload stage = iota
	// stageHost is normal policy of host endpoints, for the host's own and for forwarded traffic.
	// An Allow accepts, unless the packet is stale.
	stageHost
	// stageRaw is before connection tracking: what untracked policy allows is not tracked.
	stageRaw
	// stagePreDNAT is before destination NAT.
	stagePreDNAT
	// stageRawAgain repeats untracked policy to test whether it allowed the packet, because packets
	// have no mark that records it. stagePreDNATAgain does so for pre-DNAT policy, with the original
	// destination from connection tracking. Neither writes logs.
	stageRawAgain
	stagePreDNATAgain
	// stageHostOut is stageHost for what the host itself sends, where policy rejects: some of that
	// is evaluated after routing, where the kernel cannot.
	stageHostOut
	// stageRawDNAT applies untracked policy to packets of the host with a translated destination. It
	// matches the outgoing interface and the original destination. It only denies: such packets
	// are already tracked.
	stageRawDNAT
)

// name begins the names of the chains of a stage.
func (s stage) name() string {
	switch s {
	case stageRaw:
		return "raw-"
	case stagePreDNAT:
		return "prednat-"
	case stageRawAgain:
		return "again-raw-"
	case stagePreDNATAgain:
		return "again-prednat-"
	case stageHost:
		return "host-"
	case stageHostOut:
		return "host-out-"
	case stageRawDNAT:
		return "dnat-raw-"
	default:
		return ""
	}
}

// again reports whether the stage repeats another one.
func (s stage) again() bool { return s == stageRawAgain || s == stagePreDNATAgain }

// early reports whether the stage leaves packets that no rule matches to later stages.
func (s stage) early() bool { return s != stageWorkload && s != stageHost && s != stageHostOut }

// listKey names one rendering of one of the lists.
type listKey struct {
	dir   match.Direction
	stage stage
}
