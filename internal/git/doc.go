// Package git serves Git's smart HTTP protocol, read side, in front of upstream hosts.
//
// It refuses to serve a host that is not named, to let anybody read what upstream would not let that caller read now, to
// store a push, and to start a child without a permit. What it does itself is small: it takes paths, bodies and credentials
// apart, answers refs from what the mirror knows, decides who waits where, and turns errors into answers. The rest is below:
//
//	git ──▶ packs ──▶ mirror ──▶ upstream      packs: one generation per pack, spooled, framed for all who want it
//	 │        │         │           │          mirror: copies of repositories and their upkeep
//	 │        └────▶ child ◀────────┘          upstream: the network; child: git processes
//	 └──▶ pkt (wire format) ◀── all
//
// A request's way: path ─ door (git_requests) ─ may this caller read it ─ body (git_bodies) ─ command:
//
//	ls-refs, info/refs   from the mirror's list of refs; no child, no gate
//	fetch                freshness ─ lease of the mirror ─ missing wants ─ pack cache ─ gate ─ child
//	pushes, LFS          upstream, with the caller's credentials
package git
