// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel accepts connections to a stopped agent, but the agent does not answer: every command
// ends with an error.
func TestStoppedAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	t.Setenv("WAYLEAVE_SOCKET", path)
	for _, command := range []string{
		"status", "endpoints", "policies", "sets", "routes", "ruleset", "config", "explain a/b c/d tcp/1",
		"plan demo", "watch", "drops", "health --ready",
	} {
		code, out, errs := call(t, append(strings.Fields(command), "--timeout", "20ms")...)
		require.Equal(t, 1, code, command)
		require.Empty(t, out, command)
		require.Contains(t, errs, path+": no answer after 20ms: the agent is suspended or busy", command)
	}
}

// Commands that follow an agent fail when the agent ends.
func TestFollowedAgentEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	cut := make(chan bool, 2)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if <-cut {
			panic(http.ErrAbortHandler)
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { require.NoError(t, server.Close()) }()
	for _, command := range []string{"watch", "drops"} {
		for _, abort := range []bool{true, false} { // SIGTERM may end the answer either way
			cut <- abort
			code, out, errs := call(t, command, "--socket", path)
			require.Equal(t, 1, code, command)
			require.Empty(t, out, command)
			require.Contains(t, errs, path+": the agent has ended", command)
		}
	}
}

func TestVersion(t *testing.T) {
	code, out, errs := call(t, "version")
	require.Zero(t, code, errs)
	require.Regexp(t, `^.+, revision .+, go1\..+\n$`, out)
	code, out, _ = call(t, "version", "-o", "json")
	require.Zero(t, code)
	require.Contains(t, out, `"goVersion": "go1.`)
}
