// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

const pythonClient = "examples/python/dataplane.py"

// program is a client in another process, which responds to requests on its standard input.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	ended  chan struct{}
}

// start starts a client.
func start(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, ended: make(chan struct{})}
	var err error
	p.input, err = cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.output = bufio.NewReader(output)
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(p.kill)
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	return p
}

// connected waits until the client is connected to a server, or has ended.
func (p *program) connected(server *wire.Server) {
	p.t.Helper()
	for !server.Connected() {
		select {
		case <-p.ended:
			require.Fail(p.t, "the client has ended")
		case <-time.After(time.Millisecond):
		}
	}
}

// kill kills the process.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// request sends a line and returns the response.
func (p *program) request(line string) (string, error) {
	if _, err := fmt.Fprintln(p.input, line); err != nil {
		return "", err
	}
	answer, err := p.output.ReadString('\n')
	return strings.TrimSpace(answer), err
}

// judgeRequest is a packet in JSON, as clients read it.
type judgeRequest struct {
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	Protocol        uint8  `json:"protocol"`
	SourcePort      uint16 `json:"source_port"`
	DestinationPort uint16 `json:"destination_port"`
	ICMPType        uint8  `json:"icmp_type"`
	ICMPCode        uint8  `json:"icmp_code"`
	DSCP            uint8  `json:"dscp"`
	From            *name  `json:"from,omitempty"`
	To              *name  `json:"to,omitempty"`
}

// name is a key as the schema has it.
type name struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// nameOf returns nil for the zero Key.
func nameOf(k policy.Key) *name {
	if k == (policy.Key{}) {
		return nil
	}
	return &name{string(k.Kind), k.Namespace, k.Name}
}

// judge requests the verdict on a packet.
func (p *program) judge(packet dptest.Packet) (bool, error) {
	line, err := json.Marshal(judgeRequest{
		Source: packet.Src.String(), Destination: packet.Dst.String(), Protocol: uint8(packet.Protocol),
		SourcePort: packet.SrcPort, DestinationPort: packet.DstPort,
		ICMPType: packet.ICMPType, ICMPCode: packet.ICMPCode,
		DSCP: uint8(packet.DSCP), From: nameOf(packet.From), To: nameOf(packet.To),
	})
	if err != nil {
		return false, err
	}
	answer, err := p.request(string(line))
	if answer != "true" && answer != "false" {
		return false, fmt.Errorf("no verdict: %q: %w", answer, err)
	}
	return answer == "true", err
}

// A dataplane in Python keeps the contract, and has the verdicts of policy.
func TestPython(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		path := socketPath(t)
		var client *program
		var last *side
		return conformance.Harness{
			// The program continues, like a kernel, and gets another server.
			Open: func(t *testing.T) dataplane.Dataplane {
				if last != nil {
					last.end()
				}
				var server *wire.Server
				server, last = serve(t, path, wire.ServerConfig{})
				if client == nil {
					client = start(t, exec.Command("python3", pythonClient, path))
				}
				client.connected(server)
				return withoutPlan{server}
			},
			Dump: func(t *testing.T) string {
				answer, err := client.request("policy")
				require.NoError(t, err)
				return answer
			},
			Judge:  func(p dptest.Packet) (bool, error) { return client.judge(p) },
			Worlds: few(),
		}
	})
}

// The example stays short.
func TestPythonIsShort(t *testing.T) {
	text, err := os.ReadFile(pythonClient)
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 300)
	require.NotContains(t, string(text), "\t")
}

// The client in Python refuses unknown fields too: it ends, and does not apply the batch.
func TestPythonRefusesUnknownFields(t *testing.T) {
	path := socketPath(t)
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	client := start(t, exec.Command("python3", pythonClient, path))
	conn, err := listener.Accept()
	require.NoError(t, err)
	server := &raw{t, conn, frame.New(conn, 64<<20, time.Minute)}
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, server.Read(&wirepb.ClientMessage{}))
	require.NoError(t, server.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Hello{
		Hello: &wirepb.ServerHello{Version: 1},
	}}))
	set := &wirepb.IPSetUpdate{Id: "s:a", Type: wirepb.IPSetType_IP_SET_TYPE_NETS, Members: &wirepb.Members{}}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1)
	set.GetMembers().ProtoReflect().SetUnknown(unknown)
	require.NoError(t, server.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Batch{Batch: &wirepb.Batch{
		Request: 1, Snapshot: true, Events: []*wirepb.Event{{Event: &wirepb.Event_IpSetUpdate{IpSetUpdate: set}}},
	}}}))
	require.ErrorIs(t, server.Read(&wirepb.ClientMessage{}), io.EOF)
	<-client.ended
}
