// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/tools/cluster/internal/pki"
)

// A client that trusts the authority accepts the server by its names and addresses, and by no
// other.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, pki.Write(dir, []string{"kubernetes"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.ServerCertificate), filepath.Join(dir, pki.ServerKey))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()

	authority, err := os.ReadFile(filepath.Join(dir, pki.CACertificate))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(authority))
	get := func(name string) error {
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: name}}
		connection, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().(*net.TCPAddr).String())
		if err == nil {
			err = connection.Close()
		}
		return err
	}
	require.NoError(t, get("kubernetes"))
	require.NoError(t, get("127.0.0.1"))
	require.ErrorContains(t, get("other"), "not other")
	require.FileExists(t, filepath.Join(dir, pki.AccountKey))
}
