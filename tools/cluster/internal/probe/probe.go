// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The ports of a prober.
const (
	UDPPort = 7000
	TCPPort = 7001
)

// The source ports of TCP connections. FirstDeniedPort is the first port for connections that
// policy denies, and FirstPort the first port for all others. A receiver recognises a denied SYN by
// its port. A client gives each new connection another port. If two connections had the same port,
// a node could change one of these ports to a random one when it translates a service's address.
const (
	FirstDeniedPort = 10000
	FirstPort       = 20000
	Ports           = 10000 // of each kind
)

// AnswerLimit is the time after which an allowed probe without an answer is lost. It is long
// because a prober may get no CPU time for 40 s, while its host starts hundreds of containers.
const AnswerLimit = time.Minute

// Verdict is the expected verdict for a flow.
type Verdict string

const (
	Allow  Verdict = "allow"  // a probe without an answer is lost
	Deny   Verdict = "deny"   // a probe that arrives is a leak
	Either Verdict = "either" // while a change takes effect
)

// Target is an address that a client sends to.
type Target struct {
	Name    string  `json:"name"`    // of a pod or a service
	Service bool    `json:"service"` // false: directly to a pod
	Address string  `json:"address"`
	Expect  Verdict `json:"expect"`
}

// Targets is the content of the file that a client reads again whenever it changes.
type Targets struct {
	Targets []Target `json:"targets"`
}

// Protocol is how a probe is sent.
type Protocol string

const (
	UDP    Protocol = "udp"     // on a long-lived flow
	UDPNew Protocol = "udp-new" // from a new port
	TCP    Protocol = "tcp"     // a new connection
)

// Flow is identified by its target, address, protocol and expected verdict.
type Flow struct {
	To      string   `json:"to"`
	Service bool     `json:"service,omitempty"`
	Address string   `json:"address"`
	Proto   Protocol `json:"proto"`
	Expect  Verdict  `json:"expect"`
}

// Count is the number of probes of a flow since the last report.
type Count struct {
	Flow
	Sent     int `json:"sent"`
	Answered int `json:"answered,omitempty"`
	Resent   int `json:"resent,omitempty"` // TCP segments of answered probes that were sent again
	Slowest  int `json:"slowest,omitempty"`
}

// Loss counts allowed probes of one flow that were not answered. Times are Unix milliseconds.
type Loss struct {
	Flow
	First   int64  `json:"first"` // when the first was sent
	Last    int64  `json:"last"`
	Count   int    `json:"count"`
	Backend string `json:"backend,omitempty"` // that had answered last on this flow when they were sent
}

// Leak counts the denied probes from one sender that arrived since the prober's last line with
// leaks. Each TCP segment of such a probe counts.
type Leak struct {
	From  string   `json:"from"` // the pod, or address and port if only these are known
	Proto Protocol `json:"proto"`
	First int64    `json:"first"` // when the first arrived
	Count int      `json:"count"`
}

// Line is a line that a prober prints. Besides Time and Pod, it has one of these: Addresses; Counts
// and Losses; Leaks; Overflows.
type Line struct {
	Time      int64    `json:"time"` // Unix milliseconds
	Pod       string   `json:"pod"`
	Addresses []string `json:"addresses,omitempty"` // at the start of the prober
	Counts    []Count  `json:"counts,omitempty"`
	Losses    []Loss   `json:"losses,omitempty"`
	Leaks     []Leak   `json:"leaks,omitempty"`
	// Overflows is the number of received datagrams for which the prober's own sockets had no room.
	Overflows int `json:"overflows,omitempty"`
}

// Payload is the content of a probe.
type Payload struct {
	Expect   Verdict
	From, To string
	Sequence uint64
	Backend  string // the pod that answered, empty in a request
}

const magic = "probe"

var errNoPayload = errors.New("not the payload of a probe")

// String returns the payload as it is sent.
func (p Payload) String() string {
	text := fmt.Sprintf("%s %s %s %s %d", magic, p.Expect, p.From, p.To, p.Sequence)
	if p.Backend != "" {
		text += " " + p.Backend
	}
	return text
}

// ParsePayload parses the content of a probe or of its answer.
func ParsePayload(text string) (Payload, error) {
	fields := strings.Fields(text)
	if len(fields) < 5 || len(fields) > 6 || fields[0] != magic {
		return Payload{}, errNoPayload
	}
	sequence, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil {
		return Payload{}, fmt.Errorf("%w: %w", errNoPayload, err)
	}
	p := Payload{Expect: Verdict(fields[1]), From: fields[2], To: fields[3], Sequence: sequence}
	if len(fields) == 6 {
		p.Backend = fields[5]
	}
	return p, nil
}
