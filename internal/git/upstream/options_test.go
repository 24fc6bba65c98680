package upstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestAHostThatIsNoneIsAnError(t *testing.T) {
	for _, u := range []string{"", "github.com", "ftp://h", "https://", "https://h/org", "https://h?x=1", "https://h#f", "https://user:secret@h",
		"https://h.", "http://h:x", "https://%zz", "http://user:secret@h:x", "https://:443"} {
		_, err := New(Options{Hosts: []Host{{URL: u}}})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error is %v", u, err)
		}
	}
	if _, err := New(Options{Hosts: []Host{{URL: "https://h"}, {URL: "https://H:443/"}}}); err == nil {
		t.Error("one host may be named twice")
	}
	for _, o := range []Options{{Stall: -1}, {AuthTTL: -1}, {ConnectTimeout: -1}, {Connections: -1}, {MaxRefs: -1}, {ReceiveBuffer: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestATokenIsSentInTheFormThatTheHostTakes(t *testing.T) {
	for _, tt := range []struct{ host, token, want string }{
		{"github.com", "", ""},
		{"github.com", "abc", basic("x-access-token:abc")},
		{"bitbucket.org", "abc", basic("x-token-auth:abc")},
		{"gitlab.com", "abc", basic("oauth2:abc")},
		{"git.example", "user:abc", basic("user:abc")},
		{"git.example", "Bearer abc", "Bearer abc"},
	} {
		if got := tokenAuthorization(tt.host, tt.token); got != tt.want {
			t.Errorf("%s %s is sent as %q, want %q", tt.host, tt.token, got, tt.want)
		}
	}
}

func TestCredentialsPrintAsNothing(t *testing.T) {
	cred := CredentialsOf(http.Header{"Authorization": {"Bearer secret"}})
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "cred", cred)
	type inside struct{ cred Credentials }
	text := log.String() + fmt.Sprint(cred, &cred, inside{cred}) + fmt.Sprintf("%v %+v %#v %s %q %x %d %+v %#v", cred, cred, cred, cred, cred, cred, cred,
		inside{cred}, []inside{{cred}})
	if strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", "secret")) {
		t.Errorf("they print as %s", text)
	}
	if cred.Empty() || !CredentialsOf(http.Header{}).Empty() {
		t.Error("some are none, or none are some")
	}
}
