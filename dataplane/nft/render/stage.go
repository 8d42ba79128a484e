// SPDX-License-Identifier: Apache-2.0

package render

import "github.com/wayleave/wayleave/dataplane/nft/internal/match"

// stage is a place on a packet's way that a list of rules is rendered for. At each, rules record
// their decision in the packet and return.
type stage uint8

const (
	// stageNormal is policy of workloads, and normal policy of host endpoints, for the host's own
	// and for forwarded traffic.
	stageNormal stage = iota
	// stageRaw is before connection tracking: what untracked policy allows is not tracked.
	stageRaw
	// stagePreDNAT is before destination NAT.
	stagePreDNAT
	// stageRawRecheck repeats untracked policy to test whether it allowed the packet: no mark
	// records that. stagePreDNATRecheck does so for pre-DNAT policy, with the original destination
	// from connection tracking. Neither writes logs.
	stageRawRecheck
	stagePreDNATRecheck
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
	case stageRawRecheck:
		return "recheck-raw-"
	case stagePreDNATRecheck:
		return "recheck-prednat-"
	case stageRawDNAT:
		return "dnat-raw-"
	default:
		return ""
	}
}

// recheck reports whether the stage repeats another one.
func (s stage) recheck() bool { return s == stageRawRecheck || s == stagePreDNATRecheck }

// partial reports whether the stage leaves packets that no rule matches to later stages.
func (s stage) partial() bool { return s != stageNormal }

// listKey names one rendering of one of the lists.
type listKey struct {
	dir   match.Direction
	stage stage
}
