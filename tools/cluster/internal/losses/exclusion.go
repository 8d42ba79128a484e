// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// Exclusion is a period in which losses of some flows are expected, and not counted as unexplained.
type Exclusion struct {
	// Reason for the exclusion. The results count the excluded losses under it.
	Why string
	// Pods lists pods. Probes from these pods are excluded, and so are probes that are sent
	// directly to them.
	Pods []string
	// Peers limits the field Pods. If Peers is not empty, Pods excludes a probe only if the pod at
	// the other end is in Peers. For a probe to a service, the other end is the pod that sent the
	// last answer on the flow. If this pod is not known, the probe is excluded.
	Peers []string
	// Backends lists pods. A flow through a service is excluded if one of these pods sent the last
	// answer on it.
	Backends []string
	// Services lists services. Their new flows are excluded: it is not known which pod would have
	// answered.
	Services []string
	// Start and End limit the exclusion to probes that were sent in this period. A zero End means
	// that the exclusion has not ended.
	Start, End time.Time
	// Limit is the maximum number of probes that are excluded. 0 means no limit.
	Limit int
	// MaxShare is the share of the new flows through Services that may be lost, from 0 to 1. The
	// results are invalid if the number of lost flows is higher than MaxShare times the number of
	// new flows, plus 10. 0 means no limit.
	MaxShare float64

	used, usedNew int
}

// covers reports whether an exclusion holds for a loss. from is the client's pod.
func (e *Exclusion) covers(from string, loss probe.Loss) bool {
	if !e.holds(loss.First, loss.Last) {
		return false
	}
	if e.Limit > 0 && e.used+loss.Count > e.Limit {
		return false
	}
	other := loss.To // the pod at the other end, empty if it is not known
	if loss.Service {
		other = loss.Backend
	}
	switch {
	case slices.Contains(e.Pods, from) && (other == "" || e.hasPeer(other)):
		return true
	case !loss.Service:
		return slices.Contains(e.Pods, loss.To) && e.hasPeer(from)
	case other != "":
		return slices.Contains(e.Backends, other)
	default:
		return slices.Contains(e.Services, loss.To)
	}
}

// holds reports whether both times, in milliseconds, are in the exclusion.
func (e *Exclusion) holds(first, last int64) bool {
	return first >= e.Start.UnixMilli() && (e.End.IsZero() || last <= e.End.UnixMilli())
}

// isNew reports whether a loss is that of new flows through one of Services, which covers has
// found.
func (e *Exclusion) isNew(from string, loss probe.Loss) bool {
	return loss.Service && loss.Backend == "" && slices.Contains(e.Services, loss.To) && !slices.Contains(e.Pods, from)
}

// tooMany describes the losses of new flows if their share is too large. lines have the flows that
// were sent.
func (e *Exclusion) tooMany(lines []probe.Line) string {
	const (
		margin   = 10
		reported = 5 * time.Second // after the probe, at most
	)
	if e.MaxShare == 0 {
		return ""
	}
	sent := 0
	for _, line := range lines {
		if !e.holds(line.Time, line.Time-reported.Milliseconds()) {
			continue
		}
		for _, count := range line.Counts {
			if count.Service && count.Proto != probe.UDP && count.Expect == probe.Allow &&
				slices.Contains(e.Services, count.To) && !slices.Contains(e.Pods, line.Pod) {
				sent += count.Sent
			}
		}
	}
	if e.usedNew <= margin+int(e.MaxShare*float64(sent)) {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d new flows through %s were lost", e.Why, e.usedNew, sent,
		strings.Join(e.Services, " and "))
}

func (e *Exclusion) hasPeer(pod string) bool {
	return len(e.Peers) == 0 || slices.Contains(e.Peers, pod)
}
