# Finds or keeps a copy of a program, which the first line of standard input describes; lines of Base64 follow it where it is to be kept. It prints
# the path of the copy, in Base64, and nothing where there is none.
$ErrorActionPreference = 'Stop'
$in = New-Object IO.StreamReader([Console]::OpenStandardInput())
$o = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String($in.ReadLine().Trim())) | ConvertFrom-Json
$d = Join-Path $env:LOCALAPPDATA "rung\programs\$($o.Sum)"
$f = Join-Path $d $o.Name
function Good($p) { (Test-Path -LiteralPath $p) -and ((Get-FileHash -Algorithm SHA256 -LiteralPath $p).Hash -eq $o.Sum) }
if ($o.Store -and -not (Good $f)) {
[void](New-Item -ItemType Directory -Force -Path $d)
$t = "$f.$PID"
$s = [IO.File]::Create($t)
while ($l = $in.ReadLine()) { $b = [Convert]::FromBase64String($l.Trim()); $s.Write($b, 0, $b.Length) }
$s.Close()
if (Good $t) { Move-Item -Force -LiteralPath $t -Destination $f } else { Remove-Item -LiteralPath $t }
}
if (Good $f) { [Console]::Out.Write([Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($f))) }
exit 0
