package compile

import "testing"

func TestTheFolderOfAJobIsAnExpression(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"alone", "/builds/app", "${{ work_dir }}"},
		{"with something below it", "/builds/app/bin:/usr/bin", "${{ work_dir }}/bin:/usr/bin"},
		{"the folder beside it", "/builds/app.tmp/KEY", "${{ work_dir }}.tmp/KEY"},
		{"several times", "-v /builds/app:/builds/app", "-v ${{ work_dir }}:${{ work_dir }}"},
		{"not as part of a longer name", "/builds/app2 /builds/app-x /builds/app.git", "/builds/app2 /builds/app-x /builds/app.git"},
		{"not behind a backslash", `x\/builds/app`, `x\/builds/app`},
		{"and nothing else", "echo hello", "echo hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := portableText(test.text, "/builds/app"); got != test.want {
				t.Errorf("%q becomes %q, not %q", test.text, got, test.want)
			}
		})
	}
}
